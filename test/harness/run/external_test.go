// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

func TestExternal_SnapshotAndValues(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t)
	s.addStore(http.StatusOK)
	d := s.store
	d.things = []history.ExternalThing{{Name: "old", Owner: "u0"}}
	d.call("one", http.MethodPut, "/before")
	wants := func(text string) scenario.Scenario {
		of, err := scenario.Parse([]byte("name: a\nsteps:\n- apply: {kind: " + text +
			"}\n- {name: end, quiesce: {for: 1s}}\n"))
		g.Expect(err).NotTo(HaveOccurred())
		return of
	}
	run := &execution{prover: s.Prover, names: map[string]string{"thing": "thing-1"}}
	g.Expect(run.snapshotExternal(t.Context(), wants(`"{depot.gate}"`))).To(MatchError(ContainSubstring("{depot.gate}")))
	g.Expect(run.snapshotExternal(t.Context(), wants(`"{depot.url}"`))).To(Succeed())
	g.Expect(run.placeholders()).To(Equal(map[string]string{"thing": "thing-1", "depot.url": d.proxy.URL(),
		"depot.key": "k"}))
	g.Expect(run.aliases()).To(Equal(map[string]string{"thing-1": "{thing}", d.proxy.URL(): "{depot.url}"}),
		"no secret is written down")

	t.Log("what was there before is not the run's")
	d.things = append(d.things, history.ExternalThing{Name: "thing-1", Owner: "u1"})
	var mark history.Checkpoint
	g.Expect(run.recordExternal(t.Context(), &mark)).To(Succeed())
	g.Expect(mark.Listed).To(BeTrue())
	g.Expect(mark.Things).To(Equal([]history.ExternalThing{{Name: "thing-1", Owner: "u1"}}))

	t.Log("others change it by steps")
	g.Expect(run.tryStep(t.Context(), run.prover.client, scenario.Step{External: map[string]string{"put": "x"}})).
		To(Succeed())
	g.Expect(d.done).To(Equal([]string{"put x"}))
	g.Expect(run.tryStep(t.Context(), run.prover.client, scenario.Step{External: map[string]string{"paint": "x"}})).
		To(MatchError("no such change"))
	bare := &execution{prover: &Prover{clock: clock.RealClock{}}}
	g.Expect(bare.tryStep(t.Context(), bare.prover.client, scenario.Step{External: map[string]string{"put": "x"}})).
		To(MatchError(ContainSubstring("nothing outside")))
	g.Expect(bare.recordExternal(t.Context(), &mark)).To(Succeed())
	g.Expect(bare.externalCalls(&history.History{}).Recorded).To(BeEmpty())
}

func TestExternal_CallsBelongToTheRun(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t)
	s.addStore(http.StatusOK)
	d := s.store
	d.call("one", http.MethodPut, "/thing-1")
	run := &execution{prover: s.Prover, names: map[string]string{"thing": "thing-1"}}
	g.Expect(run.snapshotExternal(t.Context(), scenario.Scenario{})).To(Succeed())
	began := time.Now()
	d.call("one", http.MethodGet, "/thing-1/?list=2&max=1")
	d.call("nobody", http.MethodPut, "/another")
	d.call("one", http.MethodGet, "/")
	cut := d.proxy.Inject(fault.Rule{Match: fault.Match{To: 1}, Fault: fault.Cut{}})
	d.call("two", http.MethodPut, "/thing-1")
	cut.Heal()
	lost := d.proxy.Inject(fault.Rule{Match: fault.Match{To: 1}, Fault: fault.Cut{At: fault.AfterAnswer}})
	d.call("two", http.MethodPut, "/thing-1")
	lost.Heal()
	h := &history.History{Aliases: run.aliases(), Requests: []history.Request{
		{RevisionRange: history.At(5), Effect: history.Stored, Received: began.Add(-time.Second), Answered: began},
		{RevisionRange: history.At(6), Effect: history.Stored, Received: time.Now(), Answered: time.Now()},
	}}
	d.waitUntilDone()
	got := run.externalCalls(h)
	g.Expect(got.Recorded).To(Equal([]history.Source{history.External}))
	var texts []string
	for _, c := range got.Calls {
		texts = append(texts, fmt.Sprintf("%s: delivered %t", c, c.Delivered))
	}
	const span = "between resourceVersions 5 and 6"
	g.Expect(texts).To(Equal([]string{
		"get of external thing-1 for UID (none) by replica one " + span + ": done: delivered true",
		"create of external another for UID u1 by replica (none) " + span + ": done: delivered true",
		"create of external thing-1 for UID u1 by replica two " + span + ": failed: delivered false",
		"create of external thing-1 for UID u1 by replica two " + span + ": done: delivered false",
	}))
	g.Expect(run.observedCalls(h)).To(Equal([]call{
		{Method: http.MethodGet, Path: "/{thing}?list&max", Answered: true},
		{Method: http.MethodPut, Path: "/{thing}"},
		{Method: http.MethodPut, Path: "/{thing}", Changed: true, Answered: true},
	}))
}

// An isolated replica reaches only the addresses that it is connected to.
func TestStartEnvironment_ConnectsReplicasToTheExternalSystem(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t)
	s.addStore(http.StatusOK)
	s.subject.External = func(context.Context, clock.Clock, func(client, server string) string) (External, error) {
		return s.store, nil
	}
	g.Expect(s.startEnvironment(t.Context())).To(Succeed())
	for _, process := range s.processes {
		g.Expect("http://" + strings.TrimPrefix(process.recordedActions()[0], "reaches ")).To(Equal(s.store.proxy.URL()))
	}
}
