package invariant_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// second is one of the story's seconds; a story has begun by the first.
func second(s float64) time.Time {
	return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
}

// probed records the harness's probes of the processes.
func probed() step {
	return changes(func(s *story) { s.Recorded = append(s.Recorded, history.Probes) })
}

// lives is a process of replica a, from a second to another; 0 is that it did not end.
func lives(from, to float64, change ...func(*history.Process)) step {
	return changes(func(s *story) {
		r := history.Process{Name: "a", Started: second(from)}
		if to > 0 {
			r.Ended = second(to)
		}
		for _, f := range change {
			f(&r)
		}
		s.Replicas = append(s.Replicas, r)
	})
}

// answers is what replica a said to a question, from a second to another.
func answers(question history.ProbeRequest, answer history.ProbeResult, from, to float64,
	change ...func(*history.Probe)) step {
	return changes(func(s *story) {
		p := history.Probe{Replica: "a", Request: question, Result: answer, First: second(from), Last: second(to)}
		if answer == history.No {
			p.Detail = "500: not yet"
		}
		for _, f := range change {
			f(&p)
		}
		s.Probes = append(s.Probes, p)
	})
}

// follows is that replica a asked for a collection at a second, and was told all of it
// at another; 0 is never.
func follows(path string, asked, synced float64) step {
	return changes(func(s *story) {
		f := history.Following{Replica: "a", Resource: things, Path: path, Asked: second(asked)}
		if path == "/others" {
			f.Resource = history.Resource{Resource: "others"}
		}
		if synced > 0 {
			f.Synced = second(synced)
		}
		s.Followed = append(s.Followed, f)
	})
}

// answeredLate is that the API server recorded its last answer only at a second.
func answeredLate(at float64) step {
	return changes(func(s *story) {
		s.Requests[len(s.Requests)-1].Answered, s.Versions[len(s.Versions)-1].At = second(at), second(at)
	})
}

func TestHonestReadiness(t *testing.T) {
	ready, notYet := answers(history.Ready, history.Yes, 5, 9), answers(history.Ready, history.No, 2, 4)
	down := answers(history.Ready, history.NoAnswer, 0.5, 1.5)
	followed, parts := follows("/things", 2, 3), follows("/parts", 2, 4)
	serves := answers(history.Serves, history.Yes, 5.1, 9)
	start := func(steps ...step) *history.History {
		return tell(append([]step{probed(), lives(1, 0)}, steps...)...)
	}
	warm := func(o *invariant.Contract) { o.Warm = true }
	leads := func(from float64) step {
		return step{func(s *story) {
			holds("b").tell(s)
			s.now = second(from)
			holds("a").tell(s)
		}}
	}
	check(t, invariant.TruthfulReadiness, map[string]row{
		"ByTheBook": {history: start(down, notYet, followed, parts, ready, serves), change: warm, want: invariant.Held,
			says: []string{"1 checked"}},
		"NoWebhooks": {history: start(down, followed, ready), want: invariant.Held},
		"TooEarly": {history: start(followed, follows("/parts", 2, 6), ready), want: invariant.Broken,
			says: []string{"replica a was ready at 00:00:05.000", "synced /parts later (at 00:00:06.000)"}},
		"OfALeader": {history: start(leads(4), followed, follows("/others", 4.9, 6), ready), change: warm,
			want: invariant.Held},
		"AnswerLate": {history: start(leads(4), answeredLate(4.95), followed, follows("/others", 4.9, 6), ready),
			change: warm, want: invariant.Held},
		"OfALeaderYet": {history: start(leads(4), followed, follows("/parts", 4.9, 6), ready), change: warm,
			want: invariant.Broken},
		"BeforeItLed": {history: start(leads(4), followed, follows("/others", 3, 6), ready), change: warm,
			want: invariant.Broken},
		"AnotherLed": {history: start(holds("b"), followed, follows("/others", 4.9, 6), ready), change: warm,
			want: invariant.Broken},
		"NeverTold": {history: start(followed, follows("/parts", 2, 0), ready), want: invariant.Broken,
			says: []string{"never synced /parts"}},
		"SecondTry": {history: start(followed, follows("/parts", 2, 0), follows("/parts", 3, 4), ready),
			want: invariant.Held},
		"AskedAgain": {history: start(followed, parts, ready, follows("/parts", 7, 8)), change: warm, want: invariant.Held},
		"AskedLater": {history: start(followed, ready, follows("/parts", 7, 8)), change: warm, want: invariant.Broken,
			says: []string{"listed /parts later (at 00:00:07.000)"}},
		"OthersLater": {history: start(followed, ready, follows("/others", 7, 8)), change: warm, want: invariant.Held},
		"MayAskLater": {history: start(followed, ready, follows("/parts", 7, 8)), want: invariant.Held},
		"NoHandshake": {history: start(followed, ready, answers(history.Serves, history.No, 5.1, 5.1),
			answers(history.Serves, history.Yes, 5.6, 9)), want: invariant.Broken,
			says: []string{"did not serve its webhooks", "500: not yet"}},
		"LostItLater": {history: start(followed, ready, serves, answers(history.Serves, history.No, 9.1, 9.5)),
			want: invariant.Held},
		"NeverReady": {history: start(followed, follows("/parts", 2, 0), notYet), want: invariant.Inconclusive,
			says: []string{"nothing that this promise applies to"}},
		"BeforeTheRun": {history: start(answers(history.Ready, history.Yes, 0.5, 9), follows("/parts", 2, 0)),
			want: invariant.Inconclusive},
		"OneThatEnded": {history: tell(probed(), lives(1, 4), lives(4.5, 0), follows("/parts", 2, 0),
			follows("/parts", 4.6, 4.8), ready), want: invariant.Held, says: []string{"1 checked"}},
		"TheOneBefore": {history: tell(probed(), lives(1, 4), lives(4.5, 0), follows("/parts", 2, 3),
			follows("/parts", 4.6, 8), ready), want: invariant.Broken},
		"Another": {history: start(followed, ready, changes(func(s *story) {
			s.Followed = append(s.Followed, history.Following{Replica: "b", Path: "/parts", Asked: second(2)})
		})), want: invariant.Held},
		"NothingKnown": {history: start(ready), want: invariant.Inconclusive,
			says: []string{"its lists were not recorded"}},
		"NobodyAsked": {history: tell(lives(1, 0), ready, followed), want: invariant.Inconclusive,
			says: []string{"[probes]"}},
		"NoProcesses": {history: start(ready, followed, without(history.Processes)), want: invariant.Inconclusive,
			says: []string{"[processes]"}},
		"TwoOfTheSame": {history: start(followed, parts, ready, serves, answers(history.Ready, history.No, 10, 11),
			answers(history.Ready, history.Yes, 12, 13)), want: invariant.Held, says: []string{"1 checked"}},
		"FirstOfTwo": {history: start(follows("/parts", 2, 8), ready, answers(history.Ready, history.No, 10, 11),
			answers(history.Ready, history.Yes, 12, 13)), want: invariant.Broken},
		"GoneMeanwhile": {history: tell(probed(), lives(1, 3), follows("/parts", 2, 0), ready), want: invariant.Inconclusive},
	})
}

func TestHonestLiveness(t *testing.T) {
	stuck := func(o *invariant.Contract) { o.Limits.Stuck = metav1.Duration{Duration: 5 * time.Second} }
	healthy := answers(history.Alive, history.Yes, 2, 30)
	idle := answers(history.Work, history.Idle, 2, 30)
	busy := func(from, to float64) step { return answers(history.Work, history.Busy, from, to) }
	run := func(steps ...step) *history.History {
		return tell(append([]step{probed(), lives(1, 0)}, steps...)...)
	}
	check(t, invariant.TruthfulLiveness, map[string]row{
		"Idle":   {history: run(healthy, idle), change: stuck, want: invariant.Held},
		"GetsOn": {history: run(healthy, busy(2, 6), busy(6, 10), busy(10, 14)), change: stuck, want: invariant.Held},
		"FalseAlarm": {history: run(answers(history.Alive, history.Yes, 2, 9), answers(history.Alive, history.No, 9, 12),
			idle), change: stuck, want: invariant.Broken,
			says: []string{"replica a reported at 00:00:09.000", "500: not yet", "no waiting work"}},
		"AlarmAtWork": {history: run(answers(history.Alive, history.Yes, 2, 7.5),
			answers(history.Alive, history.No, 7.6, 12), busy(3, 12)), change: stuck, want: invariant.Held},
		"NotYetUp": {history: run(answers(history.Alive, history.No, 1, 2), healthy, idle), change: stuck,
			want: invariant.Held},
		"GoesDown": {history: tell(probed(), lives(1, 20, func(r *history.Process) { r.Asked = second(15) }),
			answers(history.Alive, history.Yes, 2, 15), answers(history.Alive, history.No, 16, 18), idle), change: stuck,
			want: invariant.Held},
		"Paused": {history: run(answers(history.Alive, history.Yes, 2, 9),
			answers(history.Alive, history.NoAnswer, 9, 15), idle), change: stuck, want: invariant.Held},
		"SilentlyStuck": {history: run(healthy, busy(2, 9)), change: stuck, want: invariant.Broken,
			says: []string{"finished none from 00:00:02.000 to 00:00:09.000", "the limit is 5s"}},
		"SaysIt": {history: run(answers(history.Alive, history.Yes, 2, 6.9), answers(history.Alive, history.No, 7, 9),
			busy(2, 9)), change: stuck, want: invariant.Held},
		"NotForLong": {history: run(healthy, busy(2, 6.9)), change: stuck, want: invariant.Held},
		"NoLimit":    {history: run(healthy, busy(2, 29)), want: invariant.Held},
		"Standby": {history: tell(probed(), lives(1, 0), holds("b"), healthy, busy(2, 29)), change: stuck,
			want: invariant.Held},
		"LeadsSince": {history: tell(probed(), lives(1, 0), holds("b"), changes(func(s *story) { s.now = second(25) }),
			holds("a"), healthy, busy(2, 29)), change: stuck, want: invariant.Held},
		"LedForLong": {history: tell(probed(), lives(1, 0), holds("b"), changes(func(s *story) { s.now = second(22) }),
			holds("a"), healthy, busy(2, 29)), change: stuck, want: invariant.Broken, says: []string{"from 00:00:22.1"}},
		"NextProcess": {history: tell(probed(), lives(1, 4), lives(4.5, 0), healthy, busy(2, 8)), change: stuck,
			want: invariant.Held},
		"OfAnother": {history: run(healthy, answers(history.Work, history.Busy, 2, 9,
			func(p *history.Probe) { p.Replica = "b" })), change: stuck, want: invariant.Held},
		"NobodyAsked": {history: tell(lives(1, 0), healthy), change: stuck, want: invariant.Inconclusive,
			says: []string{"[probes]"}},
		"NobodyAnswers": {history: run(), change: stuck, want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
		"NoProcesses": {history: run(healthy, without(history.Processes)), change: stuck, want: invariant.Inconclusive,
			says: []string{"[processes]"}},
	})
}

// usesAtRest is what replica a has at the end of the last mark.
func usesAtRest(goroutines float64) step {
	return changes(func(s *story) {
		at := s.Checkpoints[len(s.Checkpoints)-1].Ended
		s.Probes = append(s.Probes, history.Probe{
			Replica: "a", Request: history.Resources, Figures: map[string]float64{history.Goroutines: goroutines},
			First: at, Last: at,
		})
	})
}

func TestResources(t *testing.T) {
	limits := func(o *invariant.Contract) { o.Limits.Goroutines, o.Limits.Files, o.Limits.Watches = 10, 5, 1 }
	uses := func(goroutines, files, watches, at float64) step {
		return answers(history.Resources, "", at, at, func(p *history.Probe) {
			p.Figures = map[string]float64{history.Goroutines: goroutines, history.Files: files, history.Watches: watches}
		})
	}
	// The mark lasts from the tenth second to the twelfth.
	run := func(steps ...step) *history.History {
		all := append([]step{probed(), lives(1, 0), changes(func(s *story) { s.now = second(10) }), rests("end")}, steps...)
		return tell(all...)
	}
	clean := []*history.History{run(uses(50, 20, 8, 11)), run(uses(60, 18, 9, 11))}
	check(t, invariant.NoLeaks, map[string]row{
		"AsBefore": {history: run(uses(55, 20, 9, 11)), references: clean, change: limits, want: invariant.Held,
			says: []string{"3 checked"}},
		"ABitMore": {history: run(uses(70, 25, 10, 11)), references: clean, change: limits, want: invariant.Held},
		"Goroutines": {history: run(uses(71, 20, 9, 11)), references: clean, change: limits, want: invariant.Broken,
			says: []string{"replica a has 71 goroutines when idle", "at most 60, and 10 more"}},
		"Files": {history: run(uses(60, 26, 9, 11)), references: clean, change: limits, want: invariant.Broken,
			says: []string{"26 files"}},
		"Watches": {history: run(uses(60, 20, 11, 11)), references: clean, change: limits, want: invariant.Broken,
			says: []string{"11 watches"}},
		"ComesBack": {history: run(uses(500, 90, 20, 5), uses(500, 90, 20, 10.5), uses(60, 20, 9, 11.5)),
			references: clean, change: limits, want: invariant.Held},
		"AfterTheRun": {history: run(uses(60, 20, 9, 11), uses(500, 90, 20, 13)), references: clean, change: limits,
			want: invariant.Held},
		"NoLimit": {history: run(uses(500, 90, 20, 11)), references: clean, want: invariant.Inconclusive},
		"Young": {history: tell(probed(), lives(11, 0), changes(func(s *story) { s.now = second(10) }), rests("end"),
			uses(500, 90, 20, 11.5)), references: clean, change: limits, want: invariant.Inconclusive},
		"Ended": {history: tell(probed(), lives(1, 11), changes(func(s *story) { s.now = second(10) }), rests("end"),
			uses(500, 90, 20, 10.5)), references: clean, change: limits, want: invariant.Inconclusive},
		"OnlyTheLast": {history: tell(probed(), lives(1, 0), rests("first"), uses(500, 90, 20, 1),
			changes(func(s *story) { s.now = second(10) }), rests("end"), uses(60, 20, 9, 11)), references: clean,
			change: limits, want: invariant.Held},
		"NoReference": {history: run(uses(60, 20, 9, 11)), change: limits, want: invariant.Inconclusive,
			says: []string{"no clean run"}},
		"Incomparable": {history: run(uses(60, 20, 9, 11)), references: []*history.History{run()}, change: limits,
			want: invariant.Inconclusive, says: []string{"did not record how many goroutines"}},
		"NobodyAsked": {history: tell(lives(1, 0), rests("end"), uses(500, 90, 20, 0.3)), references: clean, change: limits,
			want: invariant.Inconclusive, says: []string{"[probes]"}},
		"NoRest": {history: tell(probed(), lives(1, 0), uses(500, 90, 20, 2)), references: clean, change: limits,
			want: invariant.Inconclusive, says: []string{"nothing that this promise applies to"}},
	})
}

func TestMemory(t *testing.T) {
	limits := func(o *invariant.Contract) {
		o.Limits.Heap, o.Limits.Resident = resource.MustParse("100"), resource.MustParse("1000")
	}
	uses := func(heap, resident, at float64) step {
		return answers(history.Memory, "", at, at, func(p *history.Probe) {
			p.Figures = map[string]float64{history.Heap: heap, history.Resident: resident}
		})
	}
	// The mark lasts from the tenth second to the twelfth.
	run := func(steps ...step) *history.History {
		all := append([]step{probed(), lives(1, 0), changes(func(s *story) { s.now = second(10) }), rests("end")}, steps...)
		return tell(all...)
	}
	clean := []*history.History{run(uses(180, 3000, 11)), run(uses(200, 4000, 11))}
	check(t, invariant.NoLeaks, map[string]row{
		"AsBefore": {history: run(uses(200, 4000, 11)), references: clean, change: limits, want: invariant.Held,
			says: []string{"2 checked"}},
		"AllThatMayBe": {history: run(uses(400, 7000, 11)), references: clean, change: limits, want: invariant.Held},
		"HeapTooLarge": {history: run(uses(401, 7000, 11)), references: clean, change: limits, want: invariant.Broken,
			says: []string{"401 heap", "at most 200, and 200 more"}},
		"ResidentTooMuch": {history: run(uses(400, 7001, 11)), references: clean, change: limits, want: invariant.Broken,
			says: []string{"7001 resident"}},
		"IsGivenBack": {history: run(uses(900, 9000, 10.5), uses(400, 7000, 11.5)), references: clean, change: limits,
			want: invariant.Held},
		"NoLimit": {history: run(uses(900, 9000, 11)), references: clean, want: invariant.Inconclusive},
		"OneLimit": {history: run(uses(900, 9000, 11)), references: clean,
			change: func(o *invariant.Contract) { o.Limits.Heap = resource.MustParse("600") }, want: invariant.Held},
	})
}
