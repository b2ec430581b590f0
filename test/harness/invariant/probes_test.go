// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"
	"time"

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

// lives is a process of a replica between two seconds; 0 means that it did not end.
func lives(replica string, from, to float64) step {
	return changes(func(s *script) {
		r := history.Process{Name: replica, Started: second(from)}
		if to > 0 {
			r.Ended = second(to)
		}
		s.Replicas = append(s.Replicas, r)
	})
}

// answers records the answer of replica a to a probe, from a second to another.
func answers(question history.ProbeRequest, answer history.ProbeResult, from, to float64) step {
	return changes(func(s *script) {
		p := history.Probe{Replica: "a", Request: question, Result: answer, First: second(from), Last: second(to)}
		if answer == history.No {
			p.Detail = "500: not yet"
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
		return play(probed(), lives("a", 1, 0), all(steps...))
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
		"OneThatEnded": wantHeld(play(probed(), lives("a", 1, 4), lives("a", 4.5, 0), follows("/parts", 2, 0),
			follows("/parts", 4.6, 4.8), ready), "1 checked"),
		"TheOneBefore": wantBroken(play(probed(), lives("a", 1, 4), lives("a", 4.5, 0), follows("/parts", 2, 3),
			follows("/parts", 4.6, 8), ready)),
		"Another": wantHeld(start(followed, ready, changes(func(s *script) {
			s.Followed = append(s.Followed, history.Following{Replica: "b", Path: "/parts", Asked: second(2)})
		}))),
		"NothingKnown": wantInconclusive(start(ready), "its lists were not recorded"),
		"TwoOfTheSame": wantHeld(start(followed, parts, ready, serves, answers(history.Ready, history.No, 10, 11),
			answers(history.Ready, history.Yes, 12, 13)), "1 checked"),
		"FirstOfTwo": wantBroken(start(follows("/parts", 2, 8), ready, answers(history.Ready, history.No, 10, 11),
			answers(history.Ready, history.Yes, 12, 13))),
		"GoneMeanwhile": wantInconclusive(play(probed(), lives("a", 1, 3), follows("/parts", 2, 0), ready)),
	})
}
