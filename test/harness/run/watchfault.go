// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// watchMethod is the method of targets that are watches.
const watchMethod = "WATCH"

// Received reports whether the target is what the operator receives, by a watch or at its start, and not a request.
func (t Target) Received() bool { return t.Method == startMethod || t.Method == watchMethod }

var watchDelay = spec{
	fault: "watch-delay", family: "watch-delay",
	text:   "for 3 s from STEP on, watches of COLLECTION deliver no events; then they deliver all of them in order",
	derive: eachEvent, injector: watchFault{},
}

// watchEvent is an event about one of the run's own objects on a watch of a collection.
type watchEvent struct {
	// Path is the collection's, with placeholders where it has names of the scenario.
	Path string
	// Action is the step that was being done, or had been done last, counted from 1
	// among those that do something.
	Action int
}

// eachEvent plans the fault at each step and collection with events in all runs, and for the Lease
// at a step that the seed selects.
func eachEvent(d *derivation, f scenario.FaultName) []Plan {
	var plans []Plan
	for _, e := range d.eventsOfAllRuns() {
		plans = append(plans, d.plan(f, "", Target{Method: watchMethod, Path: e.Path, Nth: e.Action}))
	}
	return append(plans, d.ofTheLease(f, watchMethod)...)
}

// ofTheLease plans the fault for the collection with the Lease, at a step that the seed selects.
func (d *derivation) ofTheLease(f scenario.FaultName, method string) []Plan {
	var possible []Plan
	for _, step := range d.scenario.Steps {
		if step.Acts() && d.runs[0].Leases != "" {
			possible = append(possible, d.plan(f, "", Target{Method: method, Path: d.runs[0].Leases, Nth: len(possible) + 1}))
		}
	}
	return d.one(possible)
}

// eventsOfAllRuns returns the events that all runs have, in the order of the first.
func (d *derivation) eventsOfAllRuns() []watchEvent {
	events := slices.Clone(d.runs[0].WatchEvents)
	for _, run := range d.runs[1:] {
		events = slices.DeleteFunc(events, func(e watchEvent) bool { return !slices.Contains(run.WatchEvents, e) })
	}
	return events
}

// oneStart plans a fault of starts for each collection: one of those that possible returns for its
// events, as the seed selects.
func (d *derivation) oneStart(possible func(Target) []Plan) []Plan {
	var plans []Plan
	events := d.eventsOfAllRuns()
	for i, first := range events {
		if slices.ContainsFunc(events[:i], func(e watchEvent) bool { return e.Path == first.Path }) {
			continue
		}
		var all []Plan
		for _, e := range events {
			if e.Path == first.Path {
				all = append(all, possible(Target{Method: startMethod, Path: e.Path, Nth: e.Action})...)
			}
		}
		plans = append(plans, d.one(all)...)
	}
	return plans
}

// silenceFor is the time for which watches send nothing: long enough for several writes that rely on
// a stale cache.
const silenceFor = 3 * time.Second

// collection matches reads of the target's collection.
func (a *activeFault) collection() fault.Match {
	return fault.Match{Methods: []string{http.MethodGet}, Path: scenario.Fill(a.plan.Target.Path, a.names)}
}

// watchFault delays the watches of one collection, at all replicas, before the target's step.
type watchFault struct{}

func (w watchFault) begin(ctx context.Context, a *activeFault) error {
	lasts, err := w.duration(ctx, a)
	if err != nil {
		return err
	}
	return a.beforeAction(func() {
		for _, r := range a.prover.replicas {
			began := a.now()
			injection := a.inject(r.proxy, a.collection(), fault.Lag{})
			a.goOngoing(func() {
				a.sleep(ctx, lasts)
				injection.Heal()
				step := fmt.Sprintf("late after step %d", a.plan.Target.Nth)
				if !injection.Happened() {
					a.setVoidReason("no events of %s were %s", a.plan.Target.Path, step)
					return
				}
				a.record(history.FaultRecord{
					Replica: r.process.Name(), Began: began, Ended: a.now(),
					Detail: fmt.Sprintf("events of %s were %s: %s", a.plan.Target.Path, step, a.describeWithheld(r, began)),
				})
			})
		}
	})
}

// duration returns the time for which the watches send nothing. For the Lease it exceeds the lease
// term: only then does a standby take over if it mistakes a silent watch for an ended leader.
func (watchFault) duration(ctx context.Context, a *activeFault) (time.Duration, error) {
	if a.collection().Path != path.Dir(a.prover.leasePath()) {
		return silenceFor, nil
	}
	term, err := a.leaseTerm(ctx)
	return term + silenceFor, err
}

// describeWithheld describes the first few events that the API server sent to a replica from the
// target's collection since a time.
func (a *activeFault) describeWithheld(r *replica, since time.Time) string {
	const few = 5
	journal, collection := r.proxy.Journal(), a.collection()
	var all []string
	for _, f := range journal.Frames {
		if !f.Received.Before(since) && journal.Request(f.Request).Path == collection.Path {
			all = append(all, fmt.Sprintf("%s %s", f.Type, f.Name))
		}
	}
	switch {
	case len(all) == 0:
		return "it was listed again"
	case len(all) > few:
		return strings.Join(all[:few], ", ") + " and others"
	}
	return strings.Join(all, ", ")
}

// watchEvents returns the watch events about the run's own objects that occurred soon after a step.
// A later event may be too late for a fault that begins with the step.
func (ex *execution) watchEvents(h *history.History) []watchEvent {
	normal, isOwn := h.Normalizer(), ex.isOwn(h)
	var all []watchEvent
	for _, r := range ex.prover.replicas {
		journal := r.proxy.Journal()
		for _, f := range journal.Frames {
			if !isOwn(f.Namespace + "/" + f.Name) {
				continue
			}
			action := 0
			for _, began := range ex.actionTimes {
				if began.After(f.Received) {
					break
				}
				action++
			}
			if action == 0 || f.Received.Sub(ex.actionTimes[action-1]) > silenceFor/2 {
				continue
			}
			event := watchEvent{Path: normal.Replace(journal.Request(f.Request).Path), Action: action}
			if !slices.Contains(all, event) {
				all = append(all, event)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b watchEvent) int { return a.Action - b.Action })
	return all
}
