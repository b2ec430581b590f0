package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/scenario"
)

// trial is one run of a scenario.
type trial struct {
	prover   *Prover
	began    time.Time
	bookmark record.Bookmark // of the audit log
	auditLog []byte          // what it has of the run, when that is over
	names    map[string]string
	watcher  *record.Watcher
	touched  []scenario.Ref // what the users have made, in that order
	outer
	// seen is how many requests each replica's journal had when the run began.
	seen []int
	// acted are the times at which the steps that do something began.
	acted []time.Time
	// armed is what goes wrong; nil in a clean run.
	armed *armed
	users userClients
	// standing are the steps with an access that is still expected, and decisions what
	// was answered so far.
	standing  []scenario.Step
	decisions []history.Decision
	// holes are the black holes that the scenario's values name.
	holes blackHoles
	// hostile are the namespaces from which attacks come.
	hostile []string
}

// begin waits for replicas that are well and begins to record.
func (p *Prover) begin(ctx context.Context, s scenario.Scenario) (*trial, error) {
	p.runs++
	t := &trial{prover: p, began: p.clock.Now(), names: map[string]string{}}
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		// The number makes it one of a kind, the random part tells two provers apart.
		t.names[name] = fmt.Sprintf("%s-%d-%s", name, p.runs, strconv.FormatUint(uint64(p.random.IntN(36*36*36)), 36))
	}
	// Both before the Lease is seen to be renewed: who leads must be in the record, and
	// the proxies must know.
	if t.bookmark, err = record.End(p.auditLog); err != nil {
		return nil, err
	}
	p.forget(t.began)
	if err := p.recovered(ctx); err != nil {
		return nil, err
	}
	for _, r := range p.replicas {
		t.seen = append(t.seen, len(r.proxy.Journal().Requests))
	}
	if err := t.meetExternal(ctx, s); err != nil {
		return nil, err
	}
	watched, err := p.watched()
	if err != nil {
		return nil, err
	}
	t.watcher, err = record.Watch(ctx, p.dynamic, p.clock, watched...)
	return t, err
}

// run runs the scenario, with a plan or with none, and returns what happened.
func (p *Prover) run(ctx context.Context, s scenario.Scenario, plan *scenario.Plan) (_ *trial, _ *history.History, err error) {
	t, err := p.begin(ctx, s)
	if err != nil {
		return nil, nil, fmt.Errorf("beginning a run of scenario %s: %w", s.Name, err)
	}
	defer t.watcher.Stop()
	defer func() { err = errors.Join(err, t.holes.close()) }()
	filled, err := s.Fill(t.fillings())
	if err != nil {
		return nil, nil, err
	}
	t.hostile = filled.Hostile()
	var faults []history.Fault
	if plan != nil {
		if t.armed, err = p.arm(ctx, filled, *plan, t.names); err != nil {
			return nil, nil, err
		}
		t.armed.trial = t
	}
	marks, err := t.drive(ctx, filled)
	if t.armed != nil {
		err = errors.Join(err, t.armed.disarm())
		faults = append(faults, t.armed.result())
	}
	if err != nil {
		return nil, nil, errors.Join(err, t.clear(ctx))
	}
	h, err := t.record(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("recording a run of scenario %s: %w", s.Name, err)
	}
	h.Merge(&history.History{Began: t.began, Aliases: t.aliases(), Faults: faults, Marks: marks, Decisions: t.decisions, Hostile: t.hostile})
	h.Merge(p.told(t.began))
	h.Merge(t.calls(h))
	return t, h, t.clear(ctx)
}

// record puts together what was recorded of the run.
func (t *trial) record(ctx context.Context) (*history.History, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.watcher.Sync(ctx); err != nil {
		return nil, err
	}
	events, end, err := record.ReadAuditLogFrom(t.prover.auditLog, t.bookmark)
	if err != nil {
		return nil, err
	}
	if t.auditLog, err = record.Slice(t.prover.auditLog, t.bookmark, end); err != nil {
		return nil, err
	}
	h, err := record.FromAudit(events)
	if err != nil {
		return nil, err
	}
	h.Merge(t.watcher.History())
	return h, nil
}

// aliases are the names that this run made up, by what the scenario calls them.
func (t *trial) aliases() map[string]string {
	aliases := map[string]string{}
	for placeholder, name := range t.names {
		aliases[name] = "{" + placeholder + "}"
	}
	for placeholder, value := range t.open {
		aliases[value] = "{" + placeholder + "}"
	}
	return aliases
}

// clear removes what the users have left, so that the next run does not meet it:
// what was made last goes first, as it may need what was made before. It waits for
// the end, but not for ever: what cannot go was judged already.
func (t *trial) clear(ctx context.Context) error {
	end := t.prover.clock.Now().Add(patience)
	for _, ref := range slices.Backward(t.touched) {
		if err := client.IgnoreNotFound(t.prover.client.Delete(ctx, objectOf(ref))); err != nil {
			return fmt.Errorf("clearing up after a run: %w", err)
		}
		if _, err := t.reach(ctx, end.Sub(t.prover.clock.Now()), scenario.Wait{Object: ref, Gone: true}); err != nil {
			return fmt.Errorf("clearing up after a run: %w", err)
		}
	}
	return nil
}

// observed is what plans are derived from.
func (t *trial) observed(h *history.History) scenario.Observed {
	return scenario.Observed{
		Writes: t.writes(h), News: t.news(h), Unelected: len(t.prover.subject.Unelected) > 0,
		Calls: t.observedCalls(h), Changes: t.prover.changes(), Leases: t.prover.watchedLeases(),
	}
}

// writes are the operator's requests to change something that are about the run's
// own objects, in the order in which they came to the proxies. Only of those that
// were answered it is known what they did.
func (t *trial) writes(h *history.History) []scenario.Write {
	promises, normal := t.prover.subject.Promises, h.Normal()
	known := map[string]history.Request{} // by the audit log's ID
	for _, r := range h.Requests {
		known[r.ID] = r
	}
	reconciled := func(r history.Resource) bool {
		return slices.ContainsFunc(promises.Kinds, func(k invariant.Kind) bool { return k.Resource == r })
	}
	type arrived struct {
		at time.Time
		scenario.Write
	}
	var all []arrived
	for i, replica := range t.prover.replicas {
		for _, asked := range replica.proxy.Journal().Requests[t.seen[i]:] {
			r, answered := known[asked.AuditID]
			about := normal.Replace(r.Key.String())
			if !asked.Mutating() || !answered || !r.Write() || about == r.Key.String() ||
				r.Key == promises.Lease || slices.Contains(promises.AnyReplica, r.Resource) {
				continue
			}
			all = append(all, arrived{asked.Received, scenario.Write{
				Method: asked.Method, Path: normal.Replace(asked.Path), Effective: r.Done(),
				Made: r.Made && !reconciled(r.Resource),
			}})
		}
	}
	slices.SortStableFunc(all, func(a, b arrived) int { return a.at.Compare(b.at) })
	writes := make([]scenario.Write, len(all))
	for i, w := range all {
		writes[i] = w.Write
		// A name at the end of a path stands there as it is; a slash does not matter.
		writes[i].Path = strings.TrimSuffix(w.Path, "/")
	}
	return writes
}
