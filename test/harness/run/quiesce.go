package run

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/scenario"
)

// pause is how long the operator has to have written nothing before its rest
// begins: what it does as soon as all is as desired, such as telling of it, is
// still part of getting there.
const pause = time.Second

// quiesce waits for what is desired and for rest, and looks on. An operator that
// does not come to rest is looked at all the same: that is for the invariants.
func (t *trial) quiesce(ctx context.Context, name string, q scenario.Quiesce) (history.Mark, error) {
	mark := history.Mark{Name: name}
	var err error
	if len(t.acted) > 0 {
		mark.Acted = t.acted[len(t.acted)-1]
	}
	if mark.Converged, mark.Reached, err = t.rest(ctx, q); err != nil {
		return mark, err
	}
	if mark.From, err = t.prover.storeVersion(ctx); err != nil {
		return mark, err
	}
	mark.Began = t.prover.clock.Now()
	select {
	case <-ctx.Done():
		return mark, fmt.Errorf("looking on at %q: %w", name, ctx.Err())
	case <-t.prover.clock.After(q.For.Duration):
	}
	if err := t.look(ctx, &mark); err != nil {
		return mark, err
	}
	mark.Ended = t.prover.clock.Now()
	last, err := t.prover.storeVersion(ctx)
	// The next version will be stored after the end.
	mark.To = last + 1
	return mark, err
}

// rest waits for what is desired, for the end of faults, and for the operator to
// have nothing to do. It reports whether and when what is desired was reached in time.
func (t *trial) rest(ctx context.Context, q scenario.Quiesce) (converged bool, reached time.Time, err error) {
	if converged, reached, err = t.converge(ctx, q); err != nil || t.armed == nil {
		if err == nil {
			err = t.settled(ctx, q, t.prover.clock.Now().Add(-pause))
		}
		return converged, reached, err
	}
	// A fault begins at a request: it may have been met while the state that it led to
	// was seen already.
	for again := true; again && err == nil; again = t.armed.busy() {
		busy := t.armed.busy()
		if err := t.armed.resting(ctx); err != nil {
			return false, reached, err
		}
		// What a fault did last may have undone it.
		var at time.Time
		if converged, at, err = t.converge(ctx, q); err != nil {
			return false, reached, err
		}
		if busy || reached.IsZero() || !converged {
			reached = at
		}
		// Who leads since a moment has written nothing yet, and is about to: it has a
		// pause more than others.
		err = t.settled(ctx, q, t.prover.clock.Now().Add(pause))
	}
	return converged, reached, err
}

// converge waits for what is desired, and reports whether and when it was reached.
func (t *trial) converge(ctx context.Context, q scenario.Quiesce) (converged bool, at time.Time, err error) {
	if converged, err = t.reach(ctx, within(q.Within), q.Until...); converged {
		at = t.prover.clock.Now()
	}
	return converged, at, err
}

func (t *trial) settled(ctx context.Context, q scenario.Quiesce, last time.Time) error {
	if err := t.prover.recovered(ctx); err != nil {
		return err
	}
	return t.settle(ctx, last, t.prover.clock.Now().Add(within(q.Within)))
}

// settle waits until the operator has written nothing for a while, or until a time;
// last is when it wrote before.
func (t *trial) settle(ctx context.Context, last, until time.Time) error {
	from := t.bookmark
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		events, end, err := record.ReadAuditLogFrom(t.prover.auditLog, from)
		if err != nil {
			return false, err
		}
		from = end
		for _, user := range t.prover.subject.Promises.Users {
			for _, e := range record.Writes(events, user, record.Not(t.renewal()), record.Not(t.inHostile)) {
				if e.StageTimestamp.After(last) {
					last = e.StageTimestamp.Time
				}
			}
		}
		now := t.prover.clock.Now()
		return now.Sub(last) >= pause || now.After(until), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the operator to rest: %w", err)
	}
	return nil
}

// inHostile wants requests about what is in a hostile namespace, which need not rest.
func (t *trial) inHostile(e auditv1.Event) bool {
	return e.ObjectRef != nil && slices.Contains(t.hostile, e.ObjectRef.Namespace)
}

// renewal wants requests about the Lease.
func (t *trial) renewal() record.Match {
	lease := t.prover.subject.Promises.Lease
	wanted := []record.Match{record.Resource(lease.Group, lease.Resource.Resource), record.InNamespace(lease.Namespace), record.Named(lease.Name)}
	return func(e auditv1.Event) bool {
		return !slices.ContainsFunc(wanted, func(m record.Match) bool { return !m(e) })
	}
}

// namespaces are a resource that every API server has.
var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// storeVersion is the last version that has been stored.
func (p *Prover) storeVersion(ctx context.Context) (uint64, error) {
	list, err := p.dynamic.Resource(namespaces).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("asking for the store's version: %w", err)
	}
	version, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the store's version: %w", err)
	}
	return version, nil
}
