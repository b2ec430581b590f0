// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// preferred are the conditions that report success, the most common first.
var preferred = []string{"Ready", "Available", "Succeeded", "Complete", "Completed", "Healthy", "Synced", "Reconciled",
	"Programmed", "Accepted"}

// abnormal are words in the names of conditions that report anything but success when they are True,
// and in phases.
var abnormal = []string{"stalled", "reconciling", "progressing", "degraded", "failed", "failure", "error", "terminating",
	"deleting", "paused", "suspended", "pending", "invalid", "nomatching", "notready", "unavailable", "missing", "conflict",
	"pressure", "initializing", "creating", "provisioning", "waiting", "unknown"}

func isAbnormal(name string) bool {
	return slices.ContainsFunc(abnormal, func(word string) bool { return strings.Contains(strings.ToLower(name), word) })
}

// The states of an object that do not show that the operator is done.
const untilExists, untilCurrent = "exists: true", "current: true"

// learnRest finds what shows that the operator is done: a condition, a phase, the generation that
// the status observed, or nothing.
func (k *DraftKind) learnRest(runs []observation) {
	conditions := steady(runs, func(r observation) []string {
		return slices.DeleteFunc(conditionsThatAre(r.atRest(), metav1.ConditionTrue), isAbnormal)
	})
	denied := slices.ContainsFunc(runs, func(r observation) bool { return deniesSuccess(r.atRest()) })
	i := slices.IndexFunc(preferred, func(name string) bool { return slices.Contains(conditions, name) })
	switch {
	case i >= 0:
		k.Ready = preferred[i]
	case len(conditions) == 1 && !denied:
		k.Ready = conditions[0]
	}
	if k.Ready != "" {
		k.Until = "condition: " + k.Ready
		k.Notes = append(k.Notes, fmt.Sprintf("guess: of the conditions %q that were True at rest, %s reports success",
			conditions, k.Ready))
		return
	}
	for _, field := range phases {
		values := steady(runs, func(r observation) []string {
			value, _, _ := unstructured.NestedString(r.atRest().Object, "status", field)
			return []string{value}
		})
		if len(values) == 1 && values[0] != "" && !isAbnormal(values[0]) && !denied {
			k.Until = fmt.Sprintf("field: status.%s, value: %q", field, values[0])
			k.Guesses = append(k.Guesses, fmt.Sprintf("no condition was True at rest; both runs ended with this %s", field))
			return
		}
	}
	k.Until = untilExists
	switch {
	case !slices.ContainsFunc(runs, func(r observation) bool { return hasStatus(r.atRest()) }):
		k.Guesses = append(k.Guesses, "the operator wrote no status, so nothing shows that it is done")
	case slices.ContainsFunc(runs, func(r observation) bool { return !reportsSuccess(r.atRest()) }):
		k.Fails, k.Unfinished = true, true // learnPause may find that it rests
		k.Guesses = append(k.Guesses, "the status reported no success, so the sample may need what is not there: one that works here shows more")
	default:
		k.Until = untilCurrent
		k.Guesses = append(k.Guesses, "no condition reported success; kstatus judges the status")
	}
}

// phases are fields of a status that sum it up in a word.
var phases = []string{"phase", "state"}

// reportsSuccess reports whether the status says nothing else: by kstatus, conditions or phases.
func reportsSuccess(o *unstructured.Unstructured) bool {
	for _, field := range phases {
		if value, _, _ := unstructured.NestedString(o.Object, "status", field); isAbnormal(value) {
			return false
		}
	}
	return scenario.Wait{Current: true}.Met(o) && !deniesSuccess(o) &&
		!slices.ContainsFunc(conditionsThatAre(o, metav1.ConditionTrue), isAbnormal)
}

func hasStatus(o *unstructured.Unstructured) bool {
	fields, _, _ := unstructured.NestedMap(o.Object, "status")
	return len(fields) > 0
}

// deniesSuccess reports whether a condition that reports success is False.
func deniesSuccess(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(conditionsThatAre(o, metav1.ConditionFalse),
		func(name string) bool { return slices.Contains(preferred, name) })
}

func conditionsThatAre(o *unstructured.Unstructured, status metav1.ConditionStatus) []string {
	var all []string
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		condition, _ := item.(map[string]any)
		name, ok := condition["type"].(string)
		if ok && condition["status"] == string(status) {
			all = append(all, name)
		}
	}
	return all
}

// observing is longer than operators usually pause before they look or try again, which is 10 s. A
// pause shorter than shortest is one between two writes of the same work. Where no state shows that the
// operator is done, only the silence of a checkpoint does, which begins after a second.
const observing, shortest, shortestUnknown = 11 * time.Second, 3 * time.Second, 800 * time.Millisecond

// learnPause finds how long the operator paused between two writes after the sample: it looks
// again at times, or waits before it tries again. Only a longer silence shows that it is done. Where the
// sample does not succeed, the operator may try again after twice its last pause, as work queues do, and a write
// that changes nothing or is refused is such a try.
func (k *DraftKind) learnPause(runs []observation, users []string, leases []history.Key) {
	rests := false
	for _, r := range runs {
		if len(r.history.Checkpoints) == 0 || r.history.Checkpoints[0].Acted.IsZero() {
			continue
		}
		made := r.history.Checkpoints[0]
		last, longest := made.Acted, time.Duration(0)
		for _, q := range r.history.Requests {
			if (q.Done() || k.Fails && q.Write()) && slices.Contains(users, q.User) &&
				!slices.Contains(leases, q.Key) && !slices.Contains(events, q.Resource) &&
				q.Received.After(last) && q.Received.Before(made.Ended) {
				last, longest = q.Received, max(longest, q.Received.Sub(last))
			}
		}
		silence := made.Began.Sub(last)
		rests = silence >= max(observing, 2*longest)
		if silence < longest || k.Fails && !rests { // it may go on like that
			k.Pause = 0
			if !k.Unfinished && (k.Until == untilExists || k.Until == untilCurrent) {
				k.Unfinished = true
				k.Guesses = append(k.Guesses, fmt.Sprintf("the operator wrote again and again, the last time %s after the sample: it may "+
					"never be done, and states are not compared", last.Sub(made.Acted).Round(time.Second)))
			}
			return
		}
		k.Pause = max(k.Pause, longest)
	}
	k.Unfinished = k.Fails && !rests
	least := shortest
	if k.Until == untilExists || k.Until == untilCurrent {
		least = shortestUnknown
	}
	if k.Pause < least || k.Unfinished {
		k.Pause = 0
		return
	}
	k.Guesses = append(k.Guesses, fmt.Sprintf("the operator paused for %s between two writes, so it is done only after a longer silence",
		k.Pause.Round(time.Second)))
}

// atRestOnly are the promises that compare states in which the operator is done.
var atRestOnly = []string{"end-state", "single-lifecycle", "quiescence"}
