package scenario

import (
	"net/http"
	"slices"
)

// What can go wrong with what the subject is told. The target is a collection, and
// the step in which it goes wrong: the nth of those that do something.
const (
	// LateNews holds back what watches of the collection tell, for a few seconds.
	LateNews Perturbation = "P6"
	// MissedNews cuts the watches and lets nobody watch for a few seconds; then the
	// version to go on from has expired, and the collection has to be listed.
	MissedNews Perturbation = "P7"
	// LostNews leaves the watches open and tells nothing on them, for a few seconds.
	// Then they are cut.
	LostNews Perturbation = "P8"
	// StaleStart kills all replicas a while after the step has begun, and those that
	// start find the collection as it was before. That is legal for clients that ask for
	// any version, as they do after an error.
	StaleStart Perturbation = "P9"
	// StartRace kills all replicas, and as they start again they do not get the
	// collection for a few seconds. Its variants are how.
	StartRace Perturbation = "P15"
)

// NoAnswer is the StartRace in which a replica's first request for a collection is
// not answered until later. The other variants are codes: the rights are not there
// yet, or the kind is not.
const NoAnswer = "stall"

// raceCodes are those of StartRace.
var raceCodes = []int{http.StatusForbidden, http.StatusNotFound}

// The words that targets of these perturbations have as their method.
const (
	watchMethod = "WATCH"
	startMethod = "START"
)

// News is that a watch of a collection told of one of the run's own objects.
type News struct {
	// Path is the collection's, with placeholders where it has names of the scenario.
	Path string
	// Action is the step that was being done, or had been done last, counted from 1
	// among those that do something.
	Action int
}

// Acts reports whether the step does something, and does not just wait.
func (s Step) Acts() bool { return s.Wait == nil && s.Quiesce == nil && s.May == nil }

// atNews are the faults of what the subject is told: wherever it was told something in
// all runs, news that are late and news that are missed; and for each collection, in a
// step that the random numbers choose, news that are lost on a connection that stays
// open, a start without it, in a variant that they choose, and one with what it was
// before, unless there was nothing yet.
func atNews(d *derivation) []Plan {
	var plans []Plan
	told := d.told()
	var collections []string
	for _, n := range told {
		t := Target{Method: watchMethod, Path: n.Path, Nth: n.Action}
		plans = append(plans, d.plan(LateNews, "", t), d.plan(MissedNews, "", t))
		if !slices.Contains(collections, n.Path) {
			collections = append(collections, n.Path)
		}
	}
	for _, path := range collections {
		of := slices.DeleteFunc(slices.Clone(told), func(n News) bool { return n.Path != path })
		lost, start := of[d.random.IntN(len(of))], of[d.random.IntN(len(of))]
		races := variants[StartRace]
		plans = append(plans,
			d.plan(LostNews, "", Target{Method: watchMethod, Path: path, Nth: lost.Action}),
			d.plan(StartRace, races[d.random.IntN(len(races))], Target{Method: startMethod, Path: path, Nth: start.Action}))
		if later := slices.DeleteFunc(of, func(n News) bool { return n.Action < 2 }); len(later) > 0 {
			stale := later[d.random.IntN(len(later))]
			plans = append(plans, d.plan(StaleStart, "", Target{Method: startMethod, Path: path, Nth: stale.Action}))
		}
	}
	return plans
}

// told is what was told in all runs, in the order of the first.
func (d *derivation) told() []News {
	told := slices.Clone(d.runs[0].News)
	for _, run := range d.runs[1:] {
		told = slices.DeleteFunc(told, func(n News) bool { return !slices.Contains(run.News, n) })
	}
	return told
}
