// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// activeFault is a plan's fault in one run: what all faults have, and how they act. It is injected at
// every replica, because the next leader is not known before.
type activeFault struct {
	prover   *Prover
	names    map[string]string // those of the run, by placeholder
	scenario scenario.Scenario
	plan     Plan
	// isExternal means that the plan's request is a call to the external system.
	isExternal bool
	injector   injector
	ctx        context.Context // ends when the fault is healed
	cancel     context.CancelFunc
	tasks      sync.WaitGroup
	// beforeStep runs before the step of this index, if it is set.
	beforeStep func()
	step       int

	mu sync.Mutex
	// ongoing counts faults that have begun and end by themselves. No checkpoint begins before
	// they end.
	ongoing int
	// begun counts the faults that ongoing has counted so far.
	begun       int
	injections  []*fault.Injection
	occurrences []history.FaultRecord
	voidReason  string // the reason why it did not happen, if a request was close
	// notApplicable means that it cannot happen to this operator.
	notApplicable bool
	err           error // of the harness's own
	ends          []func(ctx context.Context) error
}

// inject sets a plan's fault up.
func (ex *execution) inject(ctx context.Context, s scenario.Scenario, plan Plan) (*activeFault, error) {
	of := specOf(plan.Fault)
	if of == nil {
		return nil, fmt.Errorf("preparing plan %s: no fault is called %q", plan.ID(), plan.Fault)
	}
	a := &activeFault{prover: ex.prover, names: ex.names, scenario: s, plan: plan, injector: of.injector,
		isExternal: of.family == externalFamily}
	a.ctx, a.cancel = context.WithCancel(ctx)
	if err := a.injector.begin(a.ctx, a); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing plan %s: %w", plan.ID(), err), a.heal())
	}
	return a, nil
}

// ruleName returns the plan's ID with the number of the run, which makes it unique in the journals.
func (a *activeFault) ruleName() string {
	return fmt.Sprintf("%s in run %d", a.plan.ID(), a.prover.runs)
}

// route returns the proxies that the plan's request may pass, and the match for it, with the names of
// the run.
func (a *activeFault) route() (proxies []*fault.Proxy, match fault.Match, err error) {
	t := a.plan.Target
	if a.isExternal {
		if a.prover.external == nil {
			return nil, match, errors.New("the subject has no external system")
		}
		match, err = matchOf(t, a.names)
		return []*fault.Proxy{a.prover.external.Proxy()}, match, err
	}
	for _, r := range a.prover.running() {
		proxies = append(proxies, r.proxy)
	}
	match = fault.Match{Methods: []string{t.Method}, From: t.Nth, To: t.Nth}
	path := scenario.Fill(t.Path, a.names)
	if match.Pattern = history.GeneratedPath(path); match.Pattern == nil {
		match.Path = path
	}
	return proxies, match, nil
}

// inject makes requests at a proxy meet a fault, under the plan's name.
func (a *activeFault) inject(p *fault.Proxy, match fault.Match, f fault.Fault) *fault.Injection {
	injection := p.Inject(fault.Rule{Name: a.ruleName(), Match: match, Fault: f})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.injections = append(a.injections, injection)
	return injection
}

// record records that the fault happened. The result describes the first occurrence.
func (a *activeFault) record(f history.FaultRecord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.occurrences = append(a.occurrences, f)
}

// addError records an error of the harness.
func (a *activeFault) addError(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = errors.Join(a.err, err)
}

// atEnd registers a cleanup that runs before the next run: after all goroutines of the fault have
// ended, and also if preparing the fault failed.
func (a *activeFault) atEnd(do func(ctx context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ends = append(a.ends, do)
}

// beginStep runs what precedes a step. A nil activeFault does nothing.
func (a *activeFault) beginStep(n int) {
	if a != nil && a.beforeStep != nil && a.step == n {
		a.beforeStep()
	}
}

// beforeAction runs do before the target's step, which Nth counts among the steps that act.
func (a *activeFault) beforeAction(do func()) error {
	actions := 0
	for i, step := range a.scenario.Steps {
		if !step.Acts() {
			continue
		}
		if actions++; actions == a.plan.Target.Nth {
			a.step, a.beforeStep = i, do
			return nil
		}
	}
	return fmt.Errorf("looking for step %d among those that act: there are %d", a.plan.Target.Nth, actions)
}

// setVoidReason records why the fault did not happen, unless a reason is known already.
func (a *activeFault) setVoidReason(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.voidReason == "" {
		a.voidReason = fmt.Sprintf(format, args...)
	}
}

// beginOngoing registers a fault that will end by itself. The caller calls ended when it has.
func (a *activeFault) beginOngoing() (ended func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ongoing++
	a.begun++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ongoing--
	}
}

// effects counts the begun and the recorded effects of the fault and the injections that requests
// have met. It also reports whether a registered fault has not ended.
func (a *activeFault) effects() (n int, ongoing bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n = a.begun + len(a.occurrences)
	for _, i := range a.injections {
		if i.Happened() {
			n++
		}
	}
	return n, a.ongoing > 0
}

// goOngoing does something in the background that no checkpoint may begin before the end of.
func (a *activeFault) goOngoing(do func()) {
	ended := a.beginOngoing()
	a.tasks.Go(func() {
		defer ended()
		do()
	})
}

// waitForOngoing waits until all registered faults have ended. It returns the number of effects at
// that moment.
func (a *activeFault) waitForOngoing(ctx context.Context) (effects int, err error) {
	err = waitUntil(ctx, fmt.Sprintf("the end of what plan %s has begun", a.plan.ID()), func() bool {
		var ongoing bool
		effects, ongoing = a.effects()
		return !ongoing
	})
	return effects, err
}

func (a *activeFault) healInjections() {
	a.mu.Lock()
	injections := slices.Clone(a.injections)
	a.mu.Unlock()
	for _, i := range injections {
		i.Heal()
	}
}

// heal ends the fault. It returns the errors of the harness.
func (a *activeFault) heal() error {
	a.cancel()
	a.healInjections()
	a.tasks.Wait()
	for _, do := range a.ends {
		a.addError(do(context.WithoutCancel(a.ctx)))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *activeFault) result() history.FaultRecord {
	f := history.FaultRecord{Name: a.plan.ID(), Detail: a.voidReason}
	if found := a.findOccurrences(&f); len(found) > 0 {
		f = found[0]
		f.Name, f.Happened, f.Touched = a.plan.ID(), len(found), nil
		for _, happened := range found {
			f.Touched = append(f.Touched, happened.Touched...)
		}
	}
	f.NotApplicable = f.Happened == 0 && a.notApplicable
	if f.Happened == 0 && f.Detail == "" {
		f.Detail = fmt.Sprintf("no %s of %s came for the %d. time", a.plan.Target.Method, a.plan.Target.Path,
			a.plan.Target.Nth)
	}
	return f
}

// findOccurrences returns the recorded occurrences or, for a requestFault, those that the journals
// prove.
func (a *activeFault) findOccurrences(f *history.FaultRecord) []history.FaultRecord {
	of, inRequests := a.injector.(requestFault)
	if !inRequests {
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.Clone(a.occurrences)
	}
	var found []history.FaultRecord
	look := func(who string, request fault.ProxiedRequest) {
		switch {
		case request.Rule != a.ruleName():
		case of.happened(request):
			found = append(found, history.FaultRecord{Replica: who, Began: request.Received, Ended: request.Done,
				Detail: request.String()})
		case f.Detail == "":
			f.Detail = a.withoutEffect(request)
		}
	}
	for _, r := range a.prover.replicas {
		for _, request := range r.proxy.Journal().Requests {
			look(r.process.Name(), request)
		}
	}
	if x := a.prover.external; x != nil {
		for _, request := range x.Proxy().Journal().Requests {
			look(request.Peer, request)
		}
	}
	return found
}

// withoutEffect describes a request that met the fault without an effect.
func (a *activeFault) withoutEffect(request fault.ProxiedRequest) string {
	return fmt.Sprintf("%s met %s, which was answered with %d", a.plan.ID(), request, request.Status)
}

func (a *activeFault) now() time.Time { return a.prover.clock.Now() }

// startTimeout bounds the time until a started replica sends a request.
const startTimeout = 30 * time.Second

// waitForRequest waits until a process that started after since has sent a request that the plan
// matches, and returns the first.
func (a *activeFault) waitForRequest(ctx context.Context, r *replica,
	since time.Time) (found fault.ProxiedRequest, met bool) {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := waitUntil(limited, "a request", func() bool {
		requests := r.proxy.Journal().Requests
		// The killed process may have sent such a request, too.
		i := slices.IndexFunc(requests, func(request fault.ProxiedRequest) bool {
			return request.Rule == a.ruleName() && !request.Received.Before(since)
		})
		if i >= 0 {
			found = requests[i]
		}
		return i >= 0
	})
	if err != nil {
		a.setVoidReason("replica %s did not ask for %s when it started", r.process.Name(), a.plan.Target.Path)
	}
	return found, err == nil
}

// sleep waits for a time. A caller that must not go on after the end of ctx looks at ctx.
func (a *activeFault) sleep(ctx context.Context, d time.Duration) { _ = sleep(ctx, a.prover.clock, d) }
