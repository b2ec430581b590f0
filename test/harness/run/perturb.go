package run

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// armed is a plan's fault that waits for its request, at every replica: which one
// will lead by then is not known before.
type armed struct {
	prover *Prover
	plan   scenario.Plan
	end    context.CancelFunc
	all    sync.WaitGroup
	once   sync.Once // for those that kill: one death is the plan

	mu         sync.Mutex
	injections []*fault.Injection
	spoiled    []spoiled
}

// spoiled is one request that the fault took hold of.
type spoiled struct {
	replica *replica
	request int // the ID in the journal of the replica's proxy
}

// arm sets a plan's fault up. Its name in the journals is the plan's ID with the
// number of the run, so that no two are mistaken.
func (p *Prover) arm(ctx context.Context, plan scenario.Plan, names map[string]string) (*armed, error) {
	ctx, end := context.WithCancel(ctx)
	a := &armed{prover: p, plan: plan, end: end}
	for _, r := range p.replicas {
		if err := a.inject(ctx, r, names); err != nil {
			a.disarm()
			return nil, err
		}
	}
	return a, nil
}

func (a *armed) ruleName() string { return fmt.Sprintf("%s in run %d", a.plan.ID(), a.prover.runs) }

func (a *armed) inject(ctx context.Context, r *replica, names map[string]string) error {
	target := a.plan.Target
	rule := fault.Rule{Name: a.ruleName(), Match: fault.Match{
		Methods: []string{target.Method}, Path: scenario.Fill(target.Path, names), From: target.Nth, To: target.Nth,
	}}
	var gate *fault.Gate
	switch a.plan.Perturbation {
	case scenario.DieAfterCommit:
		gate = fault.NewGate(fault.AfterAnswer)
	case scenario.DieBeforeCommit:
		gate = fault.NewGate(fault.BeforeForward)
	case scenario.LoseAnswer:
		rule.Fault = fault.Cut{At: fault.AfterAnswer}
	case scenario.Refuse:
		answer, err := fault.Refusal(a.plan.Code)
		if err != nil {
			return err
		}
		rule.Fault = answer
	default:
		return fmt.Errorf("preparing plan %s: no perturbation is called %q", a.plan.ID(), a.plan.Perturbation)
	}
	if gate != nil {
		rule.Fault = gate
	}
	injection := r.proxy.Inject(rule)
	a.mu.Lock()
	a.injections = append(a.injections, injection)
	a.mu.Unlock()
	if gate != nil {
		a.all.Go(func() { a.killAt(ctx, gate, r) })
	}
	return nil
}

// killAt kills the replica whose request comes to the gate. The request's
// connection is cut, so what was not forwarded never will be.
func (a *armed) killAt(ctx context.Context, gate *fault.Gate, r *replica) {
	held, err := gate.Wait(ctx)
	if err != nil {
		return // the run is over and no such request came
	}
	kills := false
	a.once.Do(func() { kills = true })
	if !kills {
		held.Release()
		return
	}
	r.kill()
	held.Cut()
	a.mu.Lock()
	a.spoiled = append(a.spoiled, spoiled{r, held.Request.ID})
	a.mu.Unlock()
	a.heal() // the replica that takes over is left in peace
}

func (a *armed) heal() {
	a.mu.Lock()
	injections := slices.Clone(a.injections)
	a.mu.Unlock()
	for _, i := range injections {
		i.Heal()
	}
}

// disarm ends the fault; what it has done stays done.
func (a *armed) disarm() {
	a.end()
	a.heal()
	a.all.Wait()
}

// result says what really happened, by the journals.
func (a *armed) result() history.Fault {
	f := history.Fault{Name: a.plan.ID()}
	for _, r := range a.prover.replicas {
		for _, request := range r.proxy.Journal().Requests {
			if request.Rule != a.ruleName() {
				continue
			}
			if !a.didHappen(r, request) {
				f.Detail = fmt.Sprintf("%s met %s, which was answered with %d", a.plan.ID(), request, request.Status)
				continue
			}
			f.Happened++
			if f.Replica == "" {
				f.Replica, f.Began, f.Ended = r.process.Name(), request.Received, request.Done
				f.Detail = request.String()
			}
		}
	}
	if f.Happened == 0 && f.Detail == "" {
		f.Detail = fmt.Sprintf("no %s of %s came for the %d. time", a.plan.Target.Method, a.plan.Target.Path, a.plan.Target.Nth)
	}
	return f
}

// didHappen: the request was spoiled in the way that the plan is about. A write
// that the API server refused anyway is no lost answer and no death after a commit.
func (a *armed) didHappen(r *replica, request fault.Request) bool {
	a.mu.Lock()
	died := slices.Contains(a.spoiled, spoiled{r, request.ID})
	a.mu.Unlock()
	switch a.plan.Perturbation {
	case scenario.DieAfterCommit:
		return died && request.Committed() && request.Delivered.IsZero()
	case scenario.DieBeforeCommit:
		return died && request.Forwarded.IsZero()
	case scenario.LoseAnswer:
		return request.Committed() && request.Delivered.IsZero()
	case scenario.Refuse:
		return request.Forwarded.IsZero()
	}
	return false
}
