// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/failure"
	"leasehold.dev/controllers/internal/reporting"
)

// Errors are the errors of the steps of a reconcile.
type Errors struct {
	// Retry is an error that the status does not report and that requires another reconcile; nil if there is none.
	Retry error
	// Failed are the errors that a retry may resolve.
	Failed []error
}

// Record adds the error of a step. An error that ends by a change which the operator watches is in no list.
func (e *Errors) Record(err error) {
	switch kind := failure.Of(err); {
	case err == nil, kind.IsWatched:
	case kind.IsSilent:
		e.Retry = err
	default:
		e.Failed = append(e.Failed, err)
	}
}

// Join returns the error of a reconcile whose report ended with another error.
func (e *Errors) Join(report error) error {
	if e.Retry != nil || report != nil {
		return errors.Join(e.Retry, report)
	}
	return kerrors.NewAggregate(e.Failed)
}

// reportTimeout bounds a report after a reconcile has used up its time.
const reportTimeout = 10 * time.Second

// Report writes the status of after if it differs from that of before. Then it records events. A reconcile that has
// used up its time still reports, but not one that is canceled because the operator stops.
func (b *Base) Report(ctx context.Context, before, after client.Object, events ...reporting.PendingEvent) error {
	if !equality.Semantic.DeepEqual(before, after) {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
			defer cancel()
		}
		if err := apply.PatchStatus(ctx, b.Client, after, before); err != nil {
			return fmt.Errorf("writing status: %w", err)
		}
	}
	reporting.Flush(b.Recorder, after, events)
	return nil
}

// Fail reports an error that prevented a reconcile, unless it is none to report, and returns it. The former status
// would claim what was not checked. It returns no Conflict of the report, which for Finish would be no failure, as
// the retry reports again, and nothing of an object that is gone.
func Fail(err error, report func() error) error {
	if failure.Of(err).IsSilent {
		return err
	}
	failed := report()
	if failure.Of(failed) == failure.Changed {
		failed = nil
	}
	return errors.Join(err, client.IgnoreNotFound(failed))
}
