package invariant_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// second is one of the script's seconds; a script has begun by the first.
func second(s float64) time.Time {
	return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
}

// probed records the harness's probes of the processes.
func probed() step {
	return changes(func(s *script) { s.Recorded = append(s.Recorded, history.Probes) })
}

// lives is a process of replica a between two seconds; 0 means that it did not end.
func lives(from, to float64, change ...func(*history.Process)) step {
	return changes(func(s *script) {
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

// answers records the answer of replica a to a probe, from a second to another.
func answers(question history.ProbeRequest, answer history.ProbeResult, from, to float64,
	change ...func(*history.Probe)) step {
	return changes(func(s *script) {
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

// follows records that replica a requested a collection at a second, and received all of it at
// another; 0 is never.
func follows(path string, asked, synced float64) step {
	return changes(func(s *script) {
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

// answeredLate delays the API server's record of its last response to a second.
func answeredLate(at float64) step {
	return changes(func(s *script) {
		s.Requests[len(s.Requests)-1].Answered, s.Versions[len(s.Versions)-1].At = second(at), second(at)
	})
}

func TestHonestReadiness(t *testing.T) {
	ready, notYet := answers(history.Ready, history.Yes, 5, 9), answers(history.Ready, history.No, 2, 4)
	down := answers(history.Ready, history.NoAnswer, 0.5, 1.5)
	followed, parts := follows("/things", 2, 3), follows("/parts", 2, 4)
	serves := answers(history.Serves, history.Yes, 5.1, 9)
	start := func(steps ...step) *history.History {
		return play(append([]step{probed(), lives(1, 0)}, steps...)...)
	}
	warm := func(o *invariant.Contract) { o.Warm = true }
	leads := func(from float64) step {
		return step{func(s *script) {
			holds("b").record(s)
			s.now = second(from)
			holds("a").record(s)
		}}
	}
	check(t, invariant.TruthfulReadiness, table{
		"ByTheBook":  wantHeld(start(down, notYet, followed, parts, ready, serves), "1 checked").under(warm),
		"NoWebhooks": wantHeld(start(down, followed, ready)),
		"TooEarly": wantBroken(start(followed, follows("/parts", 2, 6), ready), "replica a was ready at 00:00:05.000",
			"synced a collection later (/parts at 00:00:06.000)"),
		"MillisecondsLater": wantHeld(start(followed, follows("/parts", 2, 5.09), ready)),
		"OfALeader":         wantHeld(start(leads(4), followed, follows("/others", 4.9, 6), ready)).under(warm),
		"AnswerLate": wantHeld(start(leads(4), answeredLate(4.95), followed, follows("/others", 4.9, 6), ready)).
			under(warm),
		"OfALeaderYet": wantBroken(start(leads(4), followed, follows("/parts", 4.9, 6), ready)).under(warm),
		"BeforeItLed":  wantBroken(start(leads(4), followed, follows("/others", 3, 6), ready)).under(warm),
		"AnotherLed":   wantBroken(start(holds("b"), followed, follows("/others", 4.9, 6), ready)).under(warm),
		"NeverTold":    wantBroken(start(followed, follows("/parts", 2, 0), ready), "never synced a collection (/parts)"),
		"SecondTry":    wantHeld(start(followed, follows("/parts", 2, 0), follows("/parts", 3, 4), ready)),
		"AskedAgain":   wantHeld(start(followed, parts, ready, follows("/parts", 7, 8))).under(warm),
		"AskedLater": wantBroken(start(followed, ready, follows("/parts", 7, 8)), "listed a collection later (/parts at 00:00:07.000)").
			under(warm),
		"OthersLater": wantHeld(start(followed, ready, follows("/others", 7, 8))).under(warm),
		"MayAskLater": wantHeld(start(followed, ready, follows("/parts", 7, 8))),
		"NoHandshake": wantBroken(start(followed, ready, answers(history.Serves, history.No, 5.1, 5.1),
			answers(history.Serves, history.Yes, 5.6, 9)), "did not serve its webhooks", "500: not yet"),
		"LostItLater": wantHeld(start(followed, ready, serves, answers(history.Serves, history.No, 9.1, 9.5))),
		"NeverReady": wantInconclusive(start(followed, follows("/parts", 2, 0), notYet),
			"nothing that this promise applies to"),
		"BeforeTheRun": wantInconclusive(start(answers(history.Ready, history.Yes, 0.5, 9), follows("/parts", 2, 0))),
		"OneThatEnded": wantHeld(play(probed(), lives(1, 4), lives(4.5, 0), follows("/parts", 2, 0),
			follows("/parts", 4.6, 4.8), ready), "1 checked"),
		"TheOneBefore": wantBroken(play(probed(), lives(1, 4), lives(4.5, 0), follows("/parts", 2, 3),
			follows("/parts", 4.6, 8), ready)),
		"Another": wantHeld(start(followed, ready, changes(func(s *script) {
			s.Followed = append(s.Followed, history.Following{Replica: "b", Path: "/parts", Asked: second(2)})
		}))),
		"NothingKnown": wantInconclusive(start(ready), "its lists were not recorded"),
		"TwoOfTheSame": wantHeld(start(followed, parts, ready, serves, answers(history.Ready, history.No, 10, 11),
			answers(history.Ready, history.Yes, 12, 13)), "1 checked"),
		"FirstOfTwo": wantBroken(start(follows("/parts", 2, 8), ready, answers(history.Ready, history.No, 10, 11),
			answers(history.Ready, history.Yes, 12, 13))),
		"GoneMeanwhile": wantInconclusive(play(probed(), lives(1, 3), follows("/parts", 2, 0), ready)),
	})
}

func TestHonestLiveness(t *testing.T) {
	stuck := func(o *invariant.Contract) { o.Limits.Stuck = metav1.Duration{Duration: 5 * time.Second} }
	healthy := answers(history.Alive, history.Yes, 2, 30)
	idle := answers(history.Work, history.Idle, 2, 30)
	busy := func(from, to float64) step { return answers(history.Work, history.Busy, from, to) }
	run := func(steps ...step) *history.History {
		return play(append([]step{probed(), lives(1, 0)}, steps...)...)
	}
	check(t, invariant.TruthfulLiveness, table{
		"Idle":   wantHeld(run(healthy, idle)),
		"GetsOn": wantHeld(run(healthy, busy(2, 6), busy(6, 10), busy(10, 14))),
		"FalseAlarm": wantBroken(run(answers(history.Alive, history.Yes, 2, 9), answers(history.Alive, history.No, 9, 12),
			idle), "replica a reported at 00:00:09.000", "500: not yet", "no waiting work"),
		"AlarmAtWork": wantHeld(run(answers(history.Alive, history.Yes, 2, 7.5),
			answers(history.Alive, history.No, 7.6, 12), busy(3, 12))),
		"NotYetUp": wantHeld(run(answers(history.Alive, history.No, 1, 2), healthy, idle)),
		"GoesDown": wantHeld(play(probed(), lives(1, 20, func(r *history.Process) { r.Asked = second(15) }),
			answers(history.Alive, history.Yes, 2, 15), answers(history.Alive, history.No, 16, 18), idle)),
		"Paused": wantHeld(run(answers(history.Alive, history.Yes, 2, 9), answers(history.Alive, history.NoAnswer, 9, 15),
			idle)),
		"SilentlyStuck": wantBroken(run(healthy, busy(2, 9)), "finished none from 00:00:02.000 to 00:00:09.000",
			"the limit is 5s"),
		"SaysIt": wantHeld(run(answers(history.Alive, history.Yes, 2, 6.9), answers(history.Alive, history.No, 7, 9),
			busy(2, 9))),
		"NotForLong": wantHeld(run(healthy, busy(2, 6.9))),
		"NoLimit":    wantHeld(run(healthy, busy(2, 29))).under(asItIs),
		"Standby":    wantHeld(play(probed(), lives(1, 0), holds("b"), healthy, busy(2, 29))),
		"LeadsSince": wantHeld(play(probed(), lives(1, 0), holds("b"), changes(func(s *script) { s.now = second(25) }),
			holds("a"), healthy, busy(2, 29))),
		"LedForLong": wantBroken(play(probed(), lives(1, 0), holds("b"), changes(func(s *script) { s.now = second(22) }),
			holds("a"), healthy, busy(2, 29)), "from 00:00:22.1"),
		"NextProcess": wantHeld(play(probed(), lives(1, 4), lives(4.5, 0), healthy, busy(2, 8))),
		"OfAnother": wantHeld(run(healthy, answers(history.Work, history.Busy, 2, 9,
			func(p *history.Probe) { p.Replica = "b" }))),
		"NobodyAnswers": wantInconclusive(run(), "nothing that this promise applies to"),
	}.under(stuck))
}

// usesAtRest sets the figures of replica a at the end of the last checkpoint.
func usesAtRest(goroutines float64) step {
	return changes(func(s *script) {
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
	// The checkpoint lasts from second 10 to 12.
	run := func(steps ...step) *history.History {
		all := append([]step{probed(), lives(1, 0), changes(func(s *script) { s.now = second(10) }), rests("end")}, steps...)
		return play(all...)
	}
	clean := []*history.History{run(uses(50, 20, 8, 11)), run(uses(60, 18, 9, 11))}
	check(t, invariant.NoLeaks, table{
		"AsBefore": wantHeld(run(uses(55, 20, 9, 11)), "3 checked"),
		"ABitMore": wantHeld(run(uses(70, 25, 10, 11))),
		"Goroutines": wantBroken(run(uses(71, 20, 9, 11)), "replica a has 71 goroutines when idle",
			"at most 60, and 10 more"),
		"Files":       wantBroken(run(uses(60, 26, 9, 11)), "26 files"),
		"Watches":     wantBroken(run(uses(60, 20, 11, 11)), "11 watches"),
		"ComesBack":   wantHeld(run(uses(500, 90, 20, 5), uses(500, 90, 20, 10.5), uses(60, 20, 9, 11.5))),
		"AfterTheRun": wantHeld(run(uses(60, 20, 9, 11), uses(500, 90, 20, 13))),
		"NoLimit":     wantInconclusive(run(uses(500, 90, 20, 11))).under(asItIs),
		"Young": wantInconclusive(play(probed(), lives(11, 0), changes(func(s *script) { s.now = second(10) }), rests("end"),
			uses(500, 90, 20, 11.5))),
		"Ended": wantInconclusive(play(probed(), lives(1, 11), changes(func(s *script) { s.now = second(10) }), rests("end"),
			uses(500, 90, 20, 10.5))),
		"OnlyTheLast": wantHeld(play(probed(), lives(1, 0), rests("first"), uses(500, 90, 20, 1),
			changes(func(s *script) { s.now = second(10) }), rests("end"), uses(60, 20, 9, 11))),
		"NoReference":  wantInconclusive(run(uses(60, 20, 9, 11)), "no clean run").against(none...),
		"Incomparable": wantInconclusive(run(uses(60, 20, 9, 11)), "did not record how many goroutines").against(run()),
		"NoRest": wantInconclusive(play(probed(), lives(1, 0), uses(500, 90, 20, 2)),
			"nothing that this promise applies to"),
	}.against(clean...).under(limits))
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
	// The checkpoint lasts from second 10 to 12.
	run := func(steps ...step) *history.History {
		all := append([]step{probed(), lives(1, 0), changes(func(s *script) { s.now = second(10) }), rests("end")}, steps...)
		return play(all...)
	}
	clean := []*history.History{run(uses(180, 3000, 11)), run(uses(200, 4000, 11))}
	check(t, invariant.NoLeaks, table{
		"AsBefore":     wantHeld(run(uses(200, 4000, 11)), "2 checked").against(clean...).under(limits),
		"AllThatMayBe": wantHeld(run(uses(400, 7000, 11))).against(clean...).under(limits),
		"HeapTooLarge": wantBroken(run(uses(401, 7000, 11)), "401 heap", "at most 200, and 200 more").against(clean...).
			under(limits),
		"ResidentTooMuch": wantBroken(run(uses(400, 7001, 11)), "7001 resident").against(clean...).under(limits),
		"IsGivenBack":     wantHeld(run(uses(900, 9000, 10.5), uses(400, 7000, 11.5))).against(clean...).under(limits),
		"NoLimit":         wantInconclusive(run(uses(900, 9000, 11))).against(clean...),
		"OneLimit": wantHeld(run(uses(900, 9000, 11))).against(clean...).
			under(func(o *invariant.Contract) { o.Limits.Heap = resource.MustParse("600") }),
	})
}
