package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// perturber is how one kind of thing goes wrong.
type perturber struct {
	// arm sets it up, before the first step. What it injects and starts through the
	// methods of armed is ended by disarm.
	arm func(ctx context.Context, a *armed) error
	// met reports whether a request that a rule of the plan took hold of was spoiled
	// in the way that the plan is about. Nil: what noted says counts.
	met func(a *armed, r *replica, request fault.Request) bool
}

// perturbers are all that there are.
var perturbers = map[scenario.Perturbation]perturber{
	scenario.DieAfterCommit:  {arm: dieAt(fault.AfterAnswer), met: diedAfterCommit},
	scenario.DieBeforeCommit: {arm: dieAt(fault.BeforeForward), met: diedBeforeCommit},
	scenario.LoseAnswer:      {arm: loseAnswer, met: answerWasLost},
	scenario.Refuse:          {arm: refuse, met: wasNotForwarded},
	scenario.DeliverLate:     {arm: atTarget(map[string]blow{"": {fault.BeforeForward, (*armed).holdBack}})},
	scenario.Pause: {arm: atTarget(map[string]blow{
		"":                        {fault.AfterAnswer, (*armed).pause},
		scenario.VariantReconnect: {fault.AfterAnswer, (*armed).pauseUnwatched},
	})},
	scenario.CutLease: {arm: atTarget(map[string]blow{
		"":                   {fault.AfterAnswer, (*armed).cutFromLease},
		scenario.VariantRest: {fault.AfterAnswer, (*armed).cutFromRest},
	})},
	scenario.CutOff: {arm: atTarget(map[string]blow{
		scenario.VariantLeader: {fault.AfterAnswer, (*armed).cutOffOne},
		scenario.VariantAll:    {fault.AfterAnswer, (*armed).cutOffAll},
		scenario.VariantStart:  {fault.AfterAnswer, (*armed).cutOffAtStart},
	})},
	scenario.Ask: {arm: atTarget(map[string]blow{
		"":                      {fault.AfterAnswer, (*armed).askLeader},
		scenario.VariantSlow:    {fault.BeforeForward, (*armed).askWhileSlow},
		scenario.VariantStandby: {fault.AfterAnswer, (*armed).askStandby},
		scenario.VariantStart:   {fault.AfterAnswer, (*armed).askAtStart},
	})},
	scenario.Twins: {arm: twins},
	scenario.FalseEvidence: {arm: atTarget(map[string]blow{
		scenario.VariantTerminated: {fault.AfterAnswer, (*armed).reportEnd},
		scenario.VariantDeleted:    {fault.AfterAnswer, (*armed).deletePod},
		scenario.VariantReplaced:   {fault.AfterAnswer, (*armed).deletePod},
	})},
	scenario.LateNews:     {arm: spoilNews("late", func(d time.Duration) fault.Fault { return fault.Lag{For: d} })},
	scenario.MissedNews:   {arm: spoilNews("missed", func(d time.Duration) fault.Fault { return fault.NewSkip(d) })},
	scenario.LostNews:     {arm: spoilNews("lost", func(d time.Duration) fault.Fault { return fault.Stall{For: d} })},
	scenario.StaleStart:   {arm: startStale},
	scenario.StartRace:    {arm: raceStart},
	scenario.WorldMoves:   {arm: moveWorld},
	scenario.OutsideFails: {arm: failOutside, met: failedOutside},
	scenario.Changed:      {arm: changeInstallation},
	scenario.Hostile:      {arm: armAttack},
}

// armed is a plan's fault at work in one run. It is set up at every replica: which
// one will lead by then is not known before.
type armed struct {
	prover   *Prover
	plan     scenario.Plan
	names    map[string]string // of the run's objects
	end      context.CancelFunc
	all      sync.WaitGroup
	once     sync.Once // for those at which one blow is the plan
	scenario scenario.Scenario
	// begins has a channel for each step, closed when the step begins.
	begins []chan struct{}
	// limit is for how long is waited for what the operator is to do.
	limit time.Duration
	// rollout is for how long a replica with another flag may take to be ready.
	rollout time.Duration
	// tidies are done when all has ended, before it is told what happened.
	tidies []func() error
	// before is what has to be done before each step begins.
	before map[int]func(ctx context.Context) error
	// trial is the run; it is known when the first step begins.
	trial *trial
	// background takes what goes on beside the scenario until the run ends.
	background chan func(context.Context)

	mu sync.Mutex
	// lasting are the faults that have begun and end by themselves. Nothing is at
	// rest before they have.
	lasting    int
	injections []*fault.Injection
	spoiled    []spoiled
	happenings []history.Fault
	missed     string // why it did not happen, if something came close
	err        error  // of the harness's own
}

// spoiled is one request that the fault took hold of.
type spoiled struct {
	replica *replica
	request int // the ID in the journal of the replica's proxy
}

// arm sets a plan's fault up. Its name in the journals is the plan's ID with the
// number of the run, so that no two are mistaken.
func (p *Prover) arm(ctx context.Context, s scenario.Scenario, plan scenario.Plan, names map[string]string) (*armed, error) {
	how, known := perturbers[plan.Perturbation]
	if !known {
		return nil, fmt.Errorf("preparing plan %s: no perturbation is called %q", plan.ID(), plan.Perturbation)
	}
	ctx, end := context.WithCancel(ctx)
	a := &armed{
		prover: p, plan: plan, names: names, end: end, limit: recovery, rollout: rolloutWithin, scenario: s, before: map[int]func(context.Context) error{},
	}
	for range s.Steps {
		a.begins = append(a.begins, make(chan struct{}))
	}
	if err := how.arm(ctx, a); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing plan %s: %w", plan.ID(), err), a.disarm())
	}
	return a, nil
}

func (a *armed) ruleName() string { return fmt.Sprintf("%s in run %d", a.plan.ID(), a.prover.runs) }

// target is the request that the plan is about, with the names of the run.
func (a *armed) target() fault.Match {
	t := a.plan.Target
	return fault.Match{Methods: []string{t.Method}, Path: scenario.Fill(t.Path, a.names), From: t.Nth, To: t.Nth}
}

// inject makes a fault happen to some requests of a replica, under the plan's name.
func (a *armed) inject(r *replica, match fault.Match, f fault.Fault) *fault.Injection {
	return a.injectAt(r.proxy, match, f)
}

// injectAt makes a fault happen to some requests at a proxy, under the plan's name.
func (a *armed) injectAt(p *fault.Proxy, match fault.Match, f fault.Fault) *fault.Injection {
	injection := p.Inject(fault.Rule{Name: a.ruleName(), Match: match, Fault: f})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.injections = append(a.injections, injection)
	return injection
}

// noted says that the fault happened. The first time is the one that is told of.
func (a *armed) noted(f history.Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.happenings = append(a.happenings, f)
}

// failed says that the harness could not do its part.
func (a *armed) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = errors.Join(a.err, err)
}

// step says that a step of the scenario begins. No plan is no fault.
func (a *armed) step(ctx context.Context, n int) error {
	if a == nil {
		return nil
	}
	if first := a.before[n]; first != nil {
		if err := first(ctx); err != nil {
			return fmt.Errorf("preparing plan %s: %w", a.plan.ID(), err)
		}
	}
	close(a.begins[n])
	return nil
}

// beforeAction lets something happen before the step that the target is about: the
// nth of those that do something.
func (a *armed) beforeAction(do func()) error {
	var actions []int
	for i, step := range a.scenario.Steps {
		if step.Acts() {
			actions = append(actions, i)
		}
	}
	nth := a.plan.Target.Nth
	if nth < 1 || nth > len(actions) {
		return fmt.Errorf("looking for step %d of those that do something: there are %d", nth, len(actions))
	}
	a.before[actions[nth-1]] = func(context.Context) error {
		do()
		return nil
	}
	return nil
}

// missing says why it did not happen, unless it is known.
func (a *armed) missing(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.missed == "" {
		a.missed = fmt.Sprintf(format, args...)
	}
}

// lasts says that a fault has begun that will end by itself. The returned function
// says that it has.
func (a *armed) lasts() (ended func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lasting++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lasting--
	}
}

// busy reports whether a fault has begun that has not ended.
func (a *armed) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lasting > 0
}

// resting waits until faults that have begun, and end by themselves, have ended.
func (a *armed) resting(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) { return !a.busy(), nil })
	if err != nil {
		return fmt.Errorf("waiting for the end of what plan %s has begun: %w", a.plan.ID(), err)
	}
	return nil
}

// heal ends what was injected.
func (a *armed) heal() {
	a.mu.Lock()
	injections := slices.Clone(a.injections)
	a.mu.Unlock()
	for _, i := range injections {
		i.Heal()
	}
}

// disarm ends the fault; what it has done stays done. It returns what the harness
// itself could not do.
func (a *armed) disarm() error {
	a.end()
	a.heal()
	a.all.Wait()
	for _, tidy := range a.tidies {
		if err := tidy(); err != nil {
			a.failed(err)
		}
	}
	a.tidies = nil
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// result says what really happened.
func (a *armed) result() history.Fault {
	f := history.Fault{Name: a.plan.ID(), Detail: a.missed}
	for _, happened := range a.inJournals(&f) {
		f.Happened++
		if f.Happened == 1 {
			f.Replica, f.Began, f.Ended, f.Detail = happened.Replica, happened.Began, happened.Ended, happened.Detail
			f.Denies, f.Attack, f.FalseEnd, f.Unelected = happened.Denies, happened.Attack, happened.FalseEnd, happened.Unelected
		}
		f.Touched = append(f.Touched, happened.Touched...)
	}
	if f.Happened == 0 && f.Detail == "" {
		f.Detail = fmt.Sprintf("no %s of %s came for the %d. time", a.plan.Target.Method, a.plan.Target.Path, a.plan.Target.Nth)
	}
	return f
}

// inJournals are the happenings that were noted or, of a fault that is about single
// requests, those that the journals prove.
func (a *armed) inJournals(f *history.Fault) []history.Fault {
	met := perturbers[a.plan.Perturbation].met
	if met == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.Clone(a.happenings)
	}
	var found []history.Fault
	look := func(r *replica, who string, request fault.Request) {
		switch {
		case request.Rule != a.ruleName():
		case met(a, r, request):
			found = append(found, history.Fault{Replica: who, Began: request.Received, Ended: request.Done, Detail: request.String()})
		case f.Detail == "":
			f.Detail = fmt.Sprintf("%s met %s, which was answered with %d", a.plan.ID(), request, request.Status)
		}
	}
	for _, r := range a.prover.replicas {
		for _, request := range r.proxy.Journal().Requests {
			look(r, r.process.Name(), request)
		}
	}
	if x := a.prover.external; x != nil {
		journal := x.Proxy().Journal()
		for _, request := range journal.Requests {
			who := journal.Peer(request)
			look(a.prover.named(who), who, request)
		}
	}
	return found
}

// now is for the times of happenings.
func (a *armed) now() time.Time { return a.prover.clock.Now() }
