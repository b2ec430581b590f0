// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// startMethod is the method of targets that are starts.
const startMethod = "START"

var startStale = spec{
	fault: "stale-start", family: "stale-start",
	text:   "3 s after STEP all replicas are killed (SIGKILL); for 8 s, the replicas that start next find COLLECTION as it was before the step",
	derive: eachEarlierState, injector: staleStart{},
}

// eachEarlierState plans the fault for each collection with an earlier state: before each step
// after which an old state is most harmful, and before one other that the seed selects.
func eachEarlierState(d *derivation, f scenario.FaultName) []Plan {
	costly := map[int]bool{}
	n := 0
	for _, step := range d.scenario.Steps {
		if step.Acts() {
			n++
			costly[n] = step.Delete != nil || step.Patch != nil && step.Patch.Merge["metadata"] != nil
		}
	}
	var plans []Plan
	for _, e := range d.eventsOfAllRuns() {
		if e.Action > 1 && costly[e.Action] {
			plans = append(plans, d.plan(f, "", Target{Method: startMethod, Path: e.Path, Nth: e.Action}))
		}
	}
	plans = append(plans, d.oneStart(func(t Target) []Plan {
		if t.Nth == 1 || costly[t.Nth] {
			return nil
		}
		return []Plan{d.plan(f, "", t)}
	})...)
	return append(plans, d.ofTheLease(f, startMethod)...)
}

// anyVersion is the resourceVersion of a list that any version may answer.
const anyVersion = "0"

// staleStart lists the collection before the target's step, and answers replicas that start later
// with that list. The client then watches from that version. legalStart says why this is legal.
type staleStart struct{}

// staleFor is the time for which a started replica receives no new events: long enough for one
// replica to lead and to write.
const staleFor = 8 * time.Second

func (s staleStart) begin(ctx context.Context, a *activeFault) error {
	refusal, err := fault.Refusal(http.StatusInternalServerError)
	if err != nil {
		return err
	}
	return a.beforeAction(func() {
		var before []listing
		for _, selected := range a.selections() {
			l, err := a.listed(ctx, selected)
			if err != nil {
				a.addError(err)
				return
			}
			before = append(before, l)
		}
		a.goOngoing(func() {
			a.sleep(ctx, silenceFor)
			for _, r := range a.prover.replicas {
				s.restart(ctx, a, r, refusal, before)
			}
			a.releaseLease(ctx)
		})
	})
}

// restart kills a replica and answers its next process with the old lists.
func (staleStart) restart(ctx context.Context, a *activeFault, r *replica, refusal fault.Answer, before []listing) {
	begins := a.collection()
	begins.Query = map[string]string{"sendInitialEvents": "true"}
	injections := []*fault.Injection{a.inject(r.proxy, begins, refusal)}
	for _, l := range before {
		lists := a.collection()
		lists.Query = maps.Clone(l.selected)
		lists.Query["resourceVersion"] = anyVersion
		injections = append(injections, a.inject(r.proxy, lists, l.Answer))
	}
	injections = append(injections, a.inject(r.proxy, a.collection(), fault.Lag{}))
	r.kill()
	killed := a.now()
	a.goOngoing(func() {
		defer func() {
			for _, i := range injections {
				i.Heal()
			}
		}()
		if _, met := a.waitForRequest(ctx, r, killed); !met {
			if listsKinds(r.proxy.Journal(), a.prover.subject.Contract.Kinds, killed) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.notApplicable, a.voidReason = true, fmt.Sprintf("replica %s listed its kinds when it started, and not %s, "+
					"which is in no cache then", r.process.Name(), a.plan.Target.Path)
			}
			return
		}
		a.sleep(ctx, staleFor)
		found, legal := a.plan.Target.legalStart(slices.DeleteFunc(r.proxy.Journal().Requests,
			func(request fault.ProxiedRequest) bool {
				return request.Rule != a.ruleName() || request.Received.Before(killed)
			}))
		a.record(history.FaultRecord{
			Replica: r.process.Name(), Began: killed, Ended: a.now(), Legal: legal,
			Detail: "all replicas were killed, and found " + found,
		})
	})
}

const apiConcepts = "https://kubernetes.io/docs/reference/using-api/api-concepts/#"

// legalStart returns the state that a starting replica found, and a sentence about the behaviour of the API server that
// makes it legal. requests are those of the replica that met the fault.
func (t Target) legalStart(requests []fault.ProxiedRequest) (found, legal string) {
	asked := func(parameter, value string) (text string) {
		for _, r := range requests {
			if text == "" && r.Query.Get(parameter) == value && r.Instead != 0 {
				text = r.String()
			}
		}
		return text
	}
	list, refused := asked("resourceVersion", anyVersion), asked("sendInitialEvents", "true")
	switch {
	case list == "": // to a client that lists the newest version no old answer is legal
		return t.Path + " at the newest version, and then received its events late", fmt.Sprintf(history.NeedsNoError+"the "+
			"API server does not promise when it sends the events of a watch (%sefficient-detection-of-changes)", apiConcepts)
	case refused == "":
		return fmt.Sprintf("%s as it was before step %d", t.Path, t.Nth), fmt.Sprintf(history.NeedsNoError+"the replica "+
			"began with %s, which any version may answer (%ssemantics-for-get-and-list)", list, apiConcepts)
	}
	return fmt.Sprintf("%s as it was before step %d", t.Path, t.Nth), fmt.Sprintf("needs one error: the replica began "+
		"with %s, which is consistent (%sstreaming-lists); refused once with a 500, it sent %s, which any version may "+
		"answer (%ssemantics-for-get-and-list)", refused, apiConcepts, list, apiConcepts)
}

// listing is the answer to a list of part of the collection.
type listing struct {
	fault.Answer

	// selected maps query parameters to selectors.
	selected map[string]string
}

// selectors are the query parameters that select part of a collection.
var selectors = []string{"labelSelector", "fieldSelector"}

// selections returns the selectors with which replicas have watched the collection, because a list
// with a selector must not return more. It sorts those with more parameters first, and the whole
// collection last.
func (a *activeFault) selections() []map[string]string {
	all, path := []map[string]string{{}}, a.collection().Path
	for _, r := range a.prover.replicas {
		for _, asked := range r.proxy.Journal().Requests {
			selected := map[string]string{}
			for _, name := range selectors {
				if value := asked.Query.Get(name); value != "" {
					selected[name] = value
				}
			}
			if asked.Path == path && asked.Query.Get("watch") == "true" &&
				!slices.ContainsFunc(all, func(o map[string]string) bool { return maps.Equal(o, selected) }) {
				all = append(all, selected)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y map[string]string) int { return len(y) - len(x) })
	return all
}

func (a *activeFault) listed(ctx context.Context, selected map[string]string) (listing, error) {
	list := a.prover.raw.Get().AbsPath(a.collection().Path).SetHeader("Accept", "application/json")
	for name, selector := range selected {
		list.Param(name, selector)
	}
	body, err := list.DoRaw(ctx)
	if err != nil {
		return listing{}, fmt.Errorf("listing %s: %w", a.plan.Target.Path, err)
	}
	return listing{fault.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: string(body)}, selected},
		nil
}
