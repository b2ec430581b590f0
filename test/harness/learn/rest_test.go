// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// What an operator writes into a status decides what its scenario waits for.
func TestLearn_Rest(t *testing.T) {
	for name, tc := range map[string]struct {
		status string // at rest, in both runs
		want   string
		second string // the status in the second run, if it is another
	}{
		"Nothing":       {status: "{}", want: "exists: true"},
		"OnlyCondition": {status: "{conditions: [{type: Rolled, status: 'True'}]}", want: "condition: Rolled"},
		"Preferred": {status: "{conditions: [{type: A, status: 'True'}, {type: Available, status: 'True'}]}", want: "condition: Available",
			second: "{conditions: [{type: Available, status: 'True'}, {type: A, status: 'True'}]}"},
		"InOneRun": {status: "{conditions: [{type: Ready, status: 'True'}]}", want: "exists: true",
			second: "{conditions: [{type: Ready, status: 'False'}]}"},
		"Phase":               {status: "{phase: Running}", want: `field: status.phase, value: "Running"`},
		"Stalled":             {status: "{conditions: [{type: Stalled, status: 'True'}]}", want: "exists: true"},
		"ErrorByTheName":      {status: "{conditions: [{type: ReconcileError, status: 'True'}]}", want: "exists: true"},
		"NoMatch":             {status: "{conditions: [{type: NoMatchingInstance, status: 'True'}]}", want: "exists: true"},
		"DeniedBesideAnother": {status: "{conditions: [{type: Ready, status: 'False'}, {type: Issuing, status: 'True'}]}", want: "exists: true"},
		"DeniedBesideAPhase":  {status: "{phase: Running, conditions: [{type: Ready, status: 'False'}]}", want: "exists: true"},
		"NoStateOfSuccess":    {status: "{state: initializing}", want: "exists: true"},
		"FailoverIsNoFailure": {status: "{conditions: [{type: FailoverReady, status: 'True'}]}", want: "condition: FailoverReady"},
		"NoPhaseOfSuccess":    {status: "{phase: Initializing}", want: "exists: true"},
		"NotReady":            {status: "{conditions: [{type: Ready, status: 'False'}]}", want: "exists: true"},
		"PhaseOfOneRun":       {status: "{phase: Running}", want: "current: true", second: "{phase: Done}"},
		"FailedInOneRun":      {status: "{phase: Running}", want: "exists: true", second: "{phase: Failed}"},
		"Generation":          {status: "{observedGeneration: 1}", want: "current: true"},
		"SeveralUnrelated":    {status: "{conditions: [{type: A, status: 'True'}, {type: B, status: 'True'}]}", want: "current: true"},
	} {
		t.Run(name, func(t *testing.T) {
			g, kinds := NewWithT(t), kindsOf(t, nil, backups(t))
			var histories []*history.History
			for i, status := range []string{tc.status, cmp.Or(tc.second, tc.status)} {
				r := record(fmt.Sprint("b", i))
				r.store("admin", "backups.archive.example.com", object(t, fmt.Sprintf("{apiVersion: archive.example.com/v1, "+
					"kind: Backup, metadata: {namespace: default, name: b%d, uid: b%d}, status: %s}", i, i, status)))
				histories = append(histories, &r.History)
			}
			g.Expect((&Draft{}).Learn(&kinds[0], []string{operator}, histories...)).To(Succeed())
			g.Expect(kinds[0].Until).To(Equal(tc.want))
			g.Expect(kinds[0].Unfinished).To(Equal(tc.want == "exists: true" && name != "Nothing"))
		})
	}
}

// A scenario waits longer than the operator paused between two writes, or since the sample. An operator that does not
// end to write is named. That of a sample that fails is done only if it may not try again soon.
func TestLearn_Pause(t *testing.T) {
	const paused, again = "the operator paused for 10s", "the operator wrote again and again, the last time 25s after the sample: it may never be done"
	const within, failed, noSuccess = "    busy: true\n    within: 20s\n", "{phase: Failed}", "the status reported no success"
	for name, tc := range map[string]struct {
		writes []int  // seconds after the sample
		began  int    // the checkpoint
		status string // of the sample
		effect history.Effect
		idle   string
		guess  string
	}{
		"None":        {nil, 11, "", history.Stored, "", ""},
		"AtOnce":      {[]int{0}, 14, "", history.Stored, "", ""},
		"SomeSeconds": {[]int{0, 2}, 14, "", history.Stored, "    idle: 4s\n", "paused for 2s"},
		"TriesAgain":  {[]int{0, 10}, 21, "", history.Stored, "    idle: 12s\n", paused},
		"Looks":       {[]int{10}, 21, "", history.Stored, "    idle: 12s\n", paused},
		"Later":       {[]int{9}, 5, "", history.Stored, within, "wrote again and again"},
		"ForEver":     {[]int{5, 15, 25}, 30, "", history.Stored, within, again},

		"FailsAndRests":       {[]int{0, 5}, 16, failed, history.Stored, "    idle: 7s\n", noSuccess},
		"FailsAndIsSilent":    {[]int{0}, 12, failed, history.Stored, "", noSuccess},
		"FailsAndMayTryAgain": {[]int{0, 6}, 17, failed, history.Stored, within, noSuccess},
		"FailsForEver":        {[]int{5, 15, 25}, 30, failed, history.Stored, within, noSuccess},
		"FailsAndIsRefused":   {[]int{5, 15, 25}, 30, failed, history.Refused, within, noSuccess},
		"FailsAndReads":       {[]int{0, 5, 15, 25}, 30, failed, history.Read, "", noSuccess},
		"IsRefused":           {[]int{5, 15, 25}, 30, "", history.Refused, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, kinds, r := NewWithT(t), kindsOf(t, nil, backups(t)), record("b0")
			r.store("admin", "backups.archive.example.com", object(t, "{apiVersion: archive.example.com/v1, kind: Backup, "+
				"metadata: {namespace: default, name: b0, uid: b0}, status: "+cmp.Or(tc.status, "{}")+"}"))
			h := &r.History
			at := func(seconds int) time.Time {
				return h.Requests[0].Received.Add(time.Duration(seconds)*time.Second + time.Millisecond)
			}
			for _, seconds := range tc.writes {
				h.Requests = append(h.Requests, history.Request{User: operator, Verb: "create", Effect: tc.effect,
					Key: history.Key{Resource: history.Resource{Resource: "configmaps"}}, Received: at(seconds)})
			}
			h.Checkpoints = []history.Checkpoint{{Name: "made", Acted: at(0), Began: at(tc.began), Ended: at(tc.began + 5)}}
			d := &Draft{}
			g.Expect(d.Learn(&kinds[0], []string{operator}, h, h)).To(Succeed())
			g.Expect(kinds[0].Fails).To(Equal(tc.status == failed))
			text, err := d.Scenario(&kinds[0])
			g.Expect(err).NotTo(HaveOccurred())
			if strings.Contains(string(text), "busy: ") != strings.Contains(tc.idle, "busy: ") {
				t.Errorf("want busy in %q in\n%s", tc.idle, text)
			}
			idles := strings.Contains(string(text), "idle: ")
			if idles != strings.HasPrefix(tc.idle, "    idle") || !strings.Contains(string(text), tc.idle) {
				t.Errorf("want idle %q in\n%s", tc.idle, text)
			}
			if !strings.Contains(string(text), tc.guess) || strings.Count(string(text), "again and again") > 1 {
				t.Errorf("want guess %q in\n%s", tc.guess, text)
			}
		})
	}
}

// States of an operator that is never done are not compared.
func TestRequire_Restless(t *testing.T) {
	runs := []*history.History{archive(t, "b0"), archive(t, "b1")}
	backup := invariant.Kind{Resource: history.Resource{Group: "archive.example.com", Resource: "backups"}}
	promises := invariant.Contract{Users: []string{operator}, Kinds: []invariant.Kind{backup}}
	for unfinished, want := range map[bool][]string{
		false: {"end-state", "single-lifecycle", "preconditions"},
		true:  {"preconditions"},
	} {
		k := &DraftKind{Unfinished: unfinished}
		k.Require(promises, runs)
		got := slices.DeleteFunc(slices.Clone(k.Invariants), func(id string) bool {
			return !slices.Contains([]string{"end-state", "single-lifecycle", "quiescence", "preconditions"}, id)
		})
		if !slices.Equal(got, want) {
			t.Errorf("unfinished %t: %v, want %v", unfinished, got, want)
		}
	}
}
