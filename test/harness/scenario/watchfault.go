package scenario

import (
	"net/http"
	"slices"
)

// Faults of watches and of starts. The target is a collection and a step: the nth of those that
// act.
const (
	// WatchDelay holds the events of watches back for a few seconds.
	WatchDelay Fault = "watch-delay"
	// WatchGap cuts the watches and refuses new ones for a few seconds. Then the version to
	// continue from has expired, and the client has to list.
	WatchGap Fault = "watch-gap"
	// StaleStart kills all replicas a while after the step has begun, and those that
	// start find the collection as it was before. That is legal for clients that request
	// any version, as they do after an error.
	StaleStart Fault = "stale-start"
	// FailedList kills all replicas, and as they start again they do not get the
	// collection for a few seconds. Its variants are how.
	FailedList Fault = "failed-list"
)

// VariantTimeout is the FailedList in which a replica's first request for a collection is
// not answered until later. The other variants are codes: the rights are not there
// yet, or the kind is not.
const VariantTimeout = "timeout"

// raceCodes are those of FailedList.
var raceCodes = []int{http.StatusForbidden, http.StatusNotFound}

// The words that targets of these faults have as their method.
const (
	watchMethod = "WATCH"
	startMethod = "START"
)

// WatchEvent is an event about one of the run's own objects on a watch of a collection.
type WatchEvent struct {
	// Path is the collection's, with placeholders where it has names of the scenario.
	Path string
	// Action is the step that was being done, or had been done last, counted from 1
	// among those that do something.
	Action int
}

// Acts reports whether the step does something, and does not just wait.
func (s Step) Acts() bool {
	return s.Wait == nil && s.Quiesce == nil && s.May == nil && s.Sleep.Duration == 0
}

// watchFaults plans late and missed events at each step and collection with events in all runs.
// For each collection it also plans a refused start in one of its variants and, if there was an
// earlier state, a start with that state, each at a step that the seed selects.
func watchFaults(d *derivation) []Plan {
	var plans []Plan
	events := d.eventsOfAllRuns()
	var collections []string
	for _, n := range events {
		t := Target{Method: watchMethod, Path: n.Path, Nth: n.Action}
		plans = append(plans, d.plan(WatchDelay, "", t), d.plan(WatchGap, "", t))
		if !slices.Contains(collections, n.Path) {
			collections = append(collections, n.Path)
		}
	}
	for _, path := range collections {
		var races, stale []Plan
		for _, n := range events {
			if n.Path != path {
				continue
			}
			start := Target{Method: startMethod, Path: path, Nth: n.Action}
			for _, variant := range kinds[FailedList].variants {
				races = append(races, d.plan(FailedList, variant, start))
			}
			if n.Action > 1 {
				stale = append(stale, d.plan(StaleStart, "", start))
			}
		}
		plans = append(plans, d.one(races))
		if len(stale) > 0 {
			plans = append(plans, d.one(stale))
		}
	}
	return plans
}

// eventsOfAllRuns returns the events that came in all runs, in the order of the first.
func (d *derivation) eventsOfAllRuns() []WatchEvent {
	events := slices.Clone(d.runs[0].WatchEvents)
	for _, run := range d.runs[1:] {
		events = slices.DeleteFunc(events, func(n WatchEvent) bool { return !slices.Contains(run.WatchEvents, n) })
	}
	return events
}
