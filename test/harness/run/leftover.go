// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"leasehold.dev/test/harness/history"
)

// leftoverTimeout is the time that the operator has to delete the objects that it created, after the
// objects of users are gone.
const leftoverTimeout = 2 * time.Second

// removeLeftovers deletes the objects that the operator created in this run and left behind, and notes
// those in the history. An object of a fixed name would otherwise be a part of every later run on this
// control plane. The garbage collector deletes an object with an owner: this waits for that, because
// the owner may have the same name in the next run. The operator keeps objects of its own in its namespace.
func (ex *execution) removeLeftovers(ctx context.Context, h *history.History) error {
	contract := ex.prover.subject.Contract
	var created []history.Key
	for _, r := range h.Requests {
		if r.Made && r.Done() && r.Name != "" && slices.Contains(contract.Users, r.User) &&
			r.Resource != history.Leases && r.Namespace != contract.Lease.Namespace &&
			!slices.Contains(contract.AnyReplica, r.Resource) && !slices.Contains(created, r.Key) {
			created = append(created, r.Key)
		}
	}
	end := ex.prover.clock.Now().Add(leftoverTimeout)
	for _, key := range created {
		version, err := ex.prover.watchedVersion(ctx, key.Resource)
		if meta.IsNoMatchError(err) {
			continue // its CustomResourceDefinition is gone
		}
		if err != nil {
			return fmt.Errorf("looking for objects that the operator left behind: %w", err)
		}
		left, err := ex.removeLeftover(ctx, ex.prover.dynamic.Resource(version).Namespace(key.Namespace), key, end)
		if err != nil {
			return fmt.Errorf("removing the object %s, which the operator left behind: %w", key, err)
		}
		if left {
			h.Leftovers = append(h.Leftovers, key)
		}
	}
	return nil
}

// removeLeftover deletes an object that exists at the end, unless it has an owner or is being deleted.
func (ex *execution) removeLeftover(ctx context.Context, objects dynamic.ResourceInterface, key history.Key,
	end time.Time) (left bool, err error) {
	for {
		o, err := objects.Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if ex.prover.clock.Now().After(end) {
			if len(o.GetOwnerReferences()) > 0 || o.GetDeletionTimestamp() != nil {
				return false, nil
			}
			err = objects.Delete(ctx, key.Name, *metav1.NewPreconditionDeleteOptions(string(o.GetUID())))
			if isAnswer(err) {
				ex.reject("", key.String(), err)
				return false, nil
			}
			return err == nil, err
		}
		if err := sleep(ctx, ex.prover.clock, pollInterval); err != nil {
			return false, err
		}
	}
}
