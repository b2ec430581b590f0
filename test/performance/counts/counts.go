// Package counts is what each change costs: how often the operator of a checkout
// asks the API server for something when an object is created, changed, disturbed
// or deleted, and when nothing has changed but the operator itself.
//
// It is counted at the server, from its audit log, so that nobody has to believe a
// client. The numbers are the same in every run of the same code: the story goes on
// only when the operator is at rest, and it plays those controllers of Kubernetes
// itself whose pace would be in the numbers, see Take.
package counts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold.dev/test/performance/stage"
)

// Phase is what one step of the story has cost.
type Phase struct {
	// Name is what happened, as in tenant.create.
	Name string
	// Counts are the same in every run of the same code. Keys are as in
	// "write create namespaces", "write patch storagebuckets/status",
	// "no-op patch namespaces" (a write that changed nothing, also counted as a write),
	// "read get secrets", "watch tenants" and "event Tenant NamespaceCreated".
	// What is not there is zero.
	Counts map[string]int
	// Timed are counts that may differ from run to run, as they depend on whether a
	// watch or a pass was faster: "reconcile tenant" is how often a controller made a
	// pass, "conflict patch namespaces" are writes that were refused because something
	// had changed or was there already.
	Timed map[string]int
	// Changes is how many changes from outside the phase consists of.
	Changes int
	// Took is how long it lasted, with the rest at its end.
	Took time.Duration
}

// Take plays the story on a stage of its own and returns its phases in their order.
// With b.Quick the fleet that is restarted is small; all else is the same.
//
// Of kube-controller-manager only those controllers run that write nothing which the
// operator looks at while it works. Namespaces are emptied and Deployments reported as
// available by the story: how many steps the real controllers take, and how many of
// them a pass sees, depends on the machine.
func Take(ctx context.Context, b stage.Bench) (_ []Phase, err error) {
	p, err := begin(ctx, b)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.end(context.WithoutCancel(ctx))) }()
	for _, act := range []act{p.tenants, p.buckets, p.views, p.fleet} {
		if err := act(ctx); err != nil {
			return nil, fmt.Errorf("counting: %w", err)
		}
	}
	return p.phases()
}

// span is a phase before it is counted: where it lies in the audit log.
type span struct {
	phase
	from, to   int
	reconciles map[string]int
	took       time.Duration
}

// phases reads what the phases have cost from what was recorded.
func (p *play) phases() ([]Phase, error) {
	ledger, err := newLedger(p.events)
	if err != nil {
		return nil, err
	}
	var phases []Phase
	for _, s := range p.spans {
		phase := Phase{Name: s.name, Changes: s.changes, Took: s.took}
		phase.Counts, phase.Timed = ledger.tally(p.events[s.from:s.to])
		for controller, n := range s.reconciles {
			if n > 0 {
				phase.Timed["reconcile "+controller] = n
			}
		}
		phases = append(phases, phase)
	}
	return phases, nil
}
