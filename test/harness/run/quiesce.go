// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/scenario"
)

// quietPeriod is the time without writes of the operator before a checkpoint begins, unless the
// checkpoint has its own. Its last writes on convergence, such as events, belong to the work before.
const quietPeriod = time.Second

const (
	// unsettledTimeout bounds the wait for objects that are about to change: a finalizer may keep one that is deleted.
	unsettledTimeout = 10 * time.Second
	// podReaction bounds the time until kube-controller-manager updates a Job after the end of its Pod.
	podReaction = 1500 * time.Millisecond
)

// maxObservations bounds the repetitions of a checkpoint's observation after an election.
const maxObservations = 3

// quiesce waits for convergence and idleness, and observes the checkpoint. It also observes an operator
// that does not become idle, which the invariants judge. The first writes of a new leader belong to no
// checkpoint, so an election that no fault caused, as on a slow machine, restarts the observation.
func (ex *execution) quiesce(ctx context.Context, name string, q scenario.Quiesce) (history.Checkpoint, error) {
	var reached time.Time
	for remaining := maxObservations; ; remaining-- {
		mark, elected, err := ex.observe(ctx, name, q)
		if reached.IsZero() {
			reached = mark.Reached
		}
		if err != nil || !elected || remaining == 1 {
			if mark.Converged {
				mark.Reached = reached // by the leader before
			}
			return mark, err
		}
	}
}

// observe waits for rest and observes one checkpoint. It reports whether another leader was elected
// meanwhile.
func (ex *execution) observe(ctx context.Context, name string,
	q scenario.Quiesce) (_ history.Checkpoint, elected bool, err error) {
	mark := history.Checkpoint{Name: name}
	if len(ex.actionTimes) > 0 {
		mark.Acted = ex.actionTimes[len(ex.actionTimes)-1]
	}
	if mark.Converged, mark.Reached, err = ex.waitForRest(ctx, q); err != nil {
		return mark, false, err
	}
	if !mark.Converged {
		if mark.Unmet, err = ex.unmet(ctx, q.Until); err != nil {
			return mark, false, err
		}
	}
	if mark.From, err = ex.prover.latestVersion(ctx); err != nil {
		return mark, false, err
	}
	mark.Began = ex.prover.clock.Now()
	lease, _ := ex.prover.readLease(ctx) // nil without an election
	if err := sleep(ctx, ex.prover.clock, q.For.Duration); err != nil {
		return mark, false, fmt.Errorf("recording the rest at %q: %w", name, err)
	}
	if err := ex.awaitRenewal(ctx, lease, mark.Began); err != nil {
		return mark, false, fmt.Errorf("recording the rest at %q: %w", name, err)
	}
	if err := ex.recordExternal(ctx, &mark); err != nil {
		return mark, false, err
	}
	if mark.Converged { // and it stayed so
		if mark.Unmet, err = ex.unmet(ctx, q.Until); err != nil {
			return mark, false, err
		}
		mark.Converged = len(mark.Unmet) == 0
	}
	mark.Ended = ex.prover.clock.Now()
	last, err := ex.prover.latestVersion(ctx)
	// The next version is stored after the end.
	mark.To = last + 1
	return mark, ex.prover.holder(ctx) != ex.leader, err
}

// awaitRenewal waits until the Lease has been renewed, at most for its duration. A slow machine may
// renew it less often than a checkpoint lasts, and the invariants judge no silence without a renewal.
func (ex *execution) awaitRenewal(ctx context.Context, before *coordinationv1.Lease, began time.Time) error {
	if before == nil {
		return nil
	}
	until := began.Add(termOf(before))
	return waitUntil(ctx, "a renewal of the Lease", func() bool {
		lease, err := ex.prover.readLease(ctx)
		return err == nil && lease.ResourceVersion != before.ResourceVersion || !ex.prover.clock.Now().Before(until)
	})
}

// waitForRest waits for convergence, for the end of faults, and until the operator is idle. It
// reports whether and when the operator converged in time.
func (ex *execution) waitForRest(ctx context.Context,
	q scenario.Quiesce) (converged bool, reached time.Time, err error) {
	if ex.activeFault == nil {
		if converged, reached, err = ex.waitForConvergence(ctx, q); err != nil {
			return false, reached, err
		}
		return converged, reached, ex.waitForIdleReplicas(ctx, q, -quietPeriod)
	}
	before, _ := ex.activeFault.effects()
	if converged, reached, err = ex.waitForConvergence(ctx, q); err != nil {
		return false, reached, err
	}
	// A fault may begin while the state that its request led to is already visible. It may also
	// begin and end while the operator settles.
	for again := true; again; {
		effects, ongoing := ex.activeFault.effects()
		disturbed := ongoing || effects != before
		if before, err = ex.activeFault.waitForOngoing(ctx); err != nil {
			return false, reached, err
		}
		// The last effect of a fault may have undone the convergence.
		var at time.Time
		if converged, at, err = ex.waitForConvergence(ctx, q); err != nil {
			return false, reached, err
		}
		if disturbed || reached.IsZero() || !converged {
			reached = at
		}
		// A new leader has not written yet, so idle means nothing until its first reconcile. The
		// checkpoint before has observed the leader of an earlier effect.
		pause := quietPeriod
		if before == ex.effects {
			pause = -quietPeriod
		}
		if err := ex.waitForIdleReplicas(ctx, q, pause); err != nil {
			return false, reached, err
		}
		effects, ongoing = ex.activeFault.effects()
		again = ongoing || effects != before
	}
	ex.effects = before
	return converged, reached, nil
}

// waitForConvergence waits for the conditions of a checkpoint, and reports whether and when they
// were met.
func (ex *execution) waitForConvergence(ctx context.Context,
	q scenario.Quiesce) (converged bool, at time.Time, err error) {
	if converged, err = ex.waitFor(ctx, cmp.Or(q.Within.Duration, defaultTimeout), q.Until...); converged {
		at = ex.prover.clock.Now()
	}
	return converged, at, err
}

// waitForIdleReplicas waits until the replicas have recovered, and then until the operator is idle.
// Its silence counts from pause after the recovery.
func (ex *execution) waitForIdleReplicas(ctx context.Context, q scenario.Quiesce, pause time.Duration) error {
	if err := ex.prover.waitUntilReady(ctx); err != nil {
		return err
	}
	// A leader that was elected without a fault has not written yet either.
	before := ex.leader
	if ex.leader = ex.prover.holder(ctx); before != "" && before != ex.leader {
		pause = quietPeriod
	}
	recovered := ex.prover.clock.Now()
	return ex.waitForIdle(ctx, q, recovered.Add(pause), recovered.Add(cmp.Or(q.Within.Duration, defaultTimeout)))
}

// waitForIdle waits until the operator has not written for quietPeriod, or the checkpoint's own, and has
// no work, and what surrounds it is at rest, or until a time. last is the time of its last known write.
func (ex *execution) waitForIdle(ctx context.Context, q scenario.Quiesce, last, until time.Time) error {
	from, began := ex.bookmark, ex.prover.clock.Now()
	quiet := cmp.Or(q.Idle.Duration, quietPeriod)
	// An operator that looks at times only may not have seen the last action yet.
	if n := len(ex.actionTimes); n > 0 && quiet > quietPeriod && ex.actionTimes[n-1].After(last) {
		last = ex.actionTimes[n-1]
	}
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		events, end, err := record.ReadAuditLogFrom(ex.prover.auditLog, from)
		if err != nil {
			return false, err
		}
		from = end
		for _, user := range ex.prover.subject.Contract.Users {
			for _, e := range record.Writes(events, user, record.Not(ex.prover.isRenewal), record.Not(ex.isHostile)) {
				if e.StageTimestamp.After(last) {
					last = e.StageTimestamp.Time
				}
			}
		}
		now := ex.prover.clock.Now()
		if at := ex.lastChange(q, began, now); at.After(last) {
			last = at
		}
		return now.Sub(last) >= quiet && !ex.hasWork(last) || now.After(until), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the operator to rest: %w", err)
	}
	return nil
}

// lastChange returns when what surrounds the operator changed last: now while a Pod that runs
// nothing is about to change, or an object is unsettled that no condition of the checkpoint is about.
func (ex *execution) lastChange(q scenario.Quiesce, began, now time.Time) (last time.Time) {
	if ex.prover.node != nil {
		last = ex.prover.node.LastChange(now).Add(podReaction)
	}
	if ex.watcher == nil || now.Sub(began) > unsettledTimeout {
		return last
	}
	if slices.ContainsFunc(ex.watcher.Unsettled(), func(o *unstructured.Unstructured) bool {
		return !slices.Contains(ex.hostileNamespaces, o.GetNamespace()) &&
			!slices.ContainsFunc(q.Until, func(w scenario.Wait) bool { return w.Object == scenario.RefOf(o) })
	}) {
		return now
	}
	return last
}

// hasWork reports whether the metrics of a replica show work, or were not read after last. It
// returns false for an operator whose metrics do not show work. A queue does not show the namespace
// of its work, so it is no evidence during an attack.
func (ex *execution) hasWork(last time.Time) bool {
	if len(ex.hostileNamespaces) > 0 {
		return false
	}
	return slices.ContainsFunc(ex.prover.running(), func(r *replica) bool {
		work, read, known := r.workload()
		return known && (work == history.Busy || read.Before(last))
	})
}

// isHostile reports whether a request is about a hostile namespace, which need not become idle.
func (ex *execution) isHostile(e auditv1.Event) bool {
	return e.ObjectRef != nil && slices.Contains(ex.hostileNamespaces, e.ObjectRef.Namespace)
}

func (p *Prover) isRenewal(e auditv1.Event) bool {
	lease, of := p.subject.Contract.Lease, e.ObjectRef
	return of != nil && of.APIGroup == lease.Group && of.Resource == lease.Resource.Resource &&
		of.Namespace == lease.Namespace && of.Name == lease.Name
}

// namespaces is a resource of every API server.
var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func (p *Prover) latestVersion(ctx context.Context) (uint64, error) {
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
