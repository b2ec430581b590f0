package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"leasehold.dev/test/harness/explore"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

func newExplored() *explored {
	x := &explored{
		Kind: invariant.Kind{Resource: history.Resource{Group: "example.com", Resource: "things"}, Ready: "Ready"},
		object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Thing",
			"metadata": map[string]any{"namespace": "default", "name": "{thing}"},
			"spec":     map[string]any{"a": "1"},
		},
		prefix: []scenario.Step{{Name: "before", Delete: &scenario.Ref{APIVersion: "v1", Kind: "Secret", Name: "s"}}},
	}
	x.Explorer.Kind, x.Sample = "things.example.com", map[string]any{"a": "1"}
	return x
}

func TestExploredScenario(t *testing.T) {
	g := NewWithT(t)
	s := &exploredSystem{explored: newExplored()}
	got := s.scenario([]map[string]any{{"a": "1"}, {"b": "2"}})
	g.Expect(got.Validate()).To(Succeed())
	g.Expect(got.Steps).To(HaveLen(5))
	g.Expect(got.Steps[1].Apply).To(HaveKeyWithValue("spec", map[string]any{"a": "1"}))
	g.Expect(got.Steps[3].Patch.Merge).To(Equal(map[string]any{"spec": map[string]any{"a": nil, "b": "2"}}))
}

// Of three changes the second is rejected. A webhook writes before the answer, the operator after.
func TestExploredRests(t *testing.T) {
	g := NewWithT(t)
	s := &exploredSystem{explored: newExplored(), promises: invariant.Contract{Users: []string{"operator"}}}
	thing := history.Key{Resource: s.Resource, Namespace: "default", Name: "thing-7"}
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	request := func(user, verb string, seconds, code int, effect history.Effect) history.Request {
		return history.Request{User: user, Verb: verb, Key: thing, Received: at(seconds), Answered: at(seconds), Code: code,
			Effect: effect}
	}
	rejected := request("admin", "patch", 10, 422, history.Refused)
	rejected.Answered = at(12)
	h := &history.History{
		Aliases: map[string]string{"thing-7": "{thing}"},
		Requests: []history.Request{
			request("admin", "patch", 0, 500, history.Unknown), // it was repeated
			request("admin", "patch", 1, 201, history.Stored),
			request("operator", "patch", 2, 200, history.Stored),
			rejected,
			request("operator", "patch", 11, 200, history.Stored),
			request("operator", "patch", 13, 200, history.Stored),
			request("admin", "patch", 20, 200, history.Stored),
		},
	}
	for i := range 3 {
		h.Checkpoints = append(h.Checkpoints,
			history.Checkpoint{Name: checkpoint(i), Converged: i != 2, Began: at(10*i + 5), Ended: at(10*i + 6)})
	}
	rests, err := s.rests(h, 3)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]bool{rests[0].Ready, rests[1].Ready, rests[2].Ready}).To(Equal([]bool{true, true, false}))
	g.Expect([]string{rests[0].Rejected, rests[2].Rejected}).To(Equal([]string{"", ""}))
	g.Expect(rests[1].Rejected).To(ContainSubstring("422"))
	g.Expect(rests[1].Writes).To(HaveLen(2))
	g.Expect(rests[0].Writes).To(BeEmpty())

	g.Expect(s.rests(h, 4)).Error().To(MatchError(ContainSubstring("3 of 4 changes")))
}

func TestExploredStateHasNoSpec(t *testing.T) {
	s := &exploredSystem{explored: newExplored()}
	got := s.withoutSpec(explore.State{
		"things.example.com default/{thing}": {".spec.prefix": "a-", ".status.ready": "true"},
		"configmaps default/{thing}":         {".spec.kept": "1"},
	})
	NewWithT(t).Expect(got).To(Equal(explore.State{
		"things.example.com default/{thing}": {".status.ready": "true"},
		"configmaps default/{thing}":         {".spec.kept": "1"},
	}))
}

// A sequence without its fault shows nothing and is no failure; one that broke off is.
func TestExplorationReport(t *testing.T) {
	void := fmt.Errorf("%w: the change leads to no write", explore.ErrNoFault)
	broke := errors.New("starting a control plane")
	for name, tc := range map[string]struct {
		err    error
		want   string
		undone []error
	}{
		"Held":      {nil, "held         things.example.com /a:remove (1.0 s)\n", nil},
		"Void":      {void, "    the fault did not happen: the change leads to no write\n", nil},
		"NotJudged": {broke, "    starting a control plane\n", []error{broke}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var output strings.Builder
			e := &exploration{output: &output}
			sequence := explore.Sequence{Changes: []explore.Change{{Path: []string{"a"}, Kind: explore.Remove}}}
			e.report(explorationJob{kind: newExplored(), sequence: sequence}, nil, tc.err, time.Second)
			g.Expect(output.String()).To(HaveSuffix(tc.want))
			g.Expect(e.undone).To(Equal(tc.undone))
		})
	}
}

// Rounds of ten minutes fill half an hour; a sequence that is named runs once.
func TestExplorationRounds(t *testing.T) {
	x := newExplored()
	x.Changes = []explore.Change{{Path: []string{"a"}, Kind: explore.Remove}}
	for name, tc := range map[string]struct {
		change string
		rounds int
	}{"Drawn": {"", 3}, "Named": {"things.example.com /a:remove", 1}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			now := testclock.NewFakeClock(time.Unix(1e9, 0))
			e := &exploration{options: options{seed: 7, explore: 25 * time.Minute, change: tc.change}, clock: now}
			jobs, err := e.options.explorationJobs([]*explored{x})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(jobs[0].seed).To(Equal(uint64(7)))
			rounds := 0
			each := func(_ context.Context, n int, _ func(context.Context, *run.Prover, int) error) error {
				g.Expect(n).To(Equal(len(jobs)))
				now.Step(10 * time.Minute)
				rounds++
				return nil
			}
			g.Expect(e.do(t.Context(), each, []*explored{x}, jobs)).To(Succeed())
			g.Expect(rounds).To(Equal(tc.rounds))
		})
	}
}
