// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

var rollingUpgrade = spec{
	fault: "upgrade", family: "upgrade",
	text:   "when the API server has carried out TARGET, all replicas are replaced one by one, as in a rolling update of a Deployment",
	derive: oneWrite, injector: upgrade{},
}

func (a *activeFault) waitUntilReady(ctx context.Context, r *replica) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	var last error
	err := waitUntil(ctx, "replica "+r.process.Name(), func() bool {
		last = r.process.Ready(ctx)
		return last == nil
	})
	return errors.Join(err, last)
}

// upgrade replaces the replicas one after another, as a Deployment does when its template changes.
// If the subject has a previous build, it starts from that.
type upgrade struct{}

func (u upgrade) begin(ctx context.Context, a *activeFault) error {
	// However this run ends, the next one begins with this build.
	a.atEnd(func(ctx context.Context) error {
		left := slices.DeleteFunc(a.prover.running(), func(r *replica) bool { return r.build != previous })
		return a.replaceReplicas(ctx, left, replicaOverrides{})
	})
	if a.prover.subject.Previous != "" {
		before := replicaOverrides{binary: a.prover.subject.Previous, build: previous}
		if err := a.replaceReplicas(ctx, a.prover.running(), before); err != nil {
			return err
		}
	}
	return heldAction{fault.AfterAnswer, u.rollOut}.begin(ctx, a)
}

// rollOut starts each new replica before it stops an old one.
func (upgrade) rollOut(ctx context.Context, a *activeFault, r *replica, held heldRequest) error {
	began := a.now()
	held.Release()
	build := "of the same build"
	if a.prover.subject.Previous != "" {
		build = "from the previous build to this one"
	}
	if err := a.replaceReplicas(ctx, a.prover.running(), replicaOverrides{}); err != nil {
		return err
	}
	a.record(history.FaultRecord{
		Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("rolled over at %s by %s, %s", held.Request, r.process.Name(), build),
	})
	return nil
}

// previous is the name of the previous build in the history.
const previous = "previous"

// replaceReplicas replaces the old replicas, one after another.
func (a *activeFault) replaceReplicas(ctx context.Context, all []*replica, u replicaOverrides) error {
	for _, old := range all {
		r, err := a.prover.addReplica(ctx, u)
		if err == nil {
			err = a.waitUntilReady(ctx, r)
		}
		if err == nil {
			err = a.prover.removeReplica(ctx, old)
		}
		if err != nil {
			return fmt.Errorf("replacing replica %s: %w", old.process.Name(), err)
		}
	}
	return nil
}
