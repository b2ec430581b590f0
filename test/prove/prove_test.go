package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/scenario"
)

// What a scenario applies is what the API has, to the last field, and it looks on
// for long enough to prove something.
func TestScenariosAreOfOurKinds(t *testing.T) {
	g := NewWithT(t)
	all, err := scenarios()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all).NotTo(BeEmpty())
	known := map[string]bool{}
	for _, i := range invariant.All() {
		known[i.ID] = true
	}
	for _, s := range all {
		for _, id := range s.Must {
			g.Expect(known).To(HaveKey(id), s.Name)
		}
		for _, step := range s.Steps {
			if step.Quiesce != nil {
				g.Expect(step.Quiesce.For.Duration).To(BeNumerically(">=", lookOn), step.Name)
			}
			if step.Apply == nil {
				continue
			}
			g.Expect(step.Apply).To(HaveKeyWithValue("kind", "Tenant"), step.Name)
			text, err := json.Marshal(step.Apply)
			g.Expect(err).NotTo(HaveOccurred())
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.DisallowUnknownFields()
			g.Expect(decoder.Decode(&v1beta1.Tenant{})).To(Succeed(), step.Name)
		}
	}
}

// What a child is known by has to be watched, or its end is never seen.
func TestEverythingPromisedIsWatched(t *testing.T) {
	g := NewWithT(t)
	s := leasehold("manager", "config")
	watched := map[history.Resource]bool{}
	for _, r := range s.Watched {
		watched[history.Resource{Group: r.Group, Resource: r.Resource}] = true
	}
	for _, k := range s.Promises.Kinds {
		g.Expect(watched).To(HaveKey(k.Resource))
		for _, c := range k.Children {
			g.Expect(watched).To(HaveKey(c.Resource))
		}
	}
}

func plan(t *testing.T, id string) scenario.Plan {
	t.Helper()
	p, err := scenario.ParsePlan(id)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

func TestChosenScenario(t *testing.T) {
	g := NewWithT(t)
	s, err := chosenScenario("tenant-life:P1:PATCH:/a:1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Name).To(Equal("tenant-life"))
	_, err = chosenScenario("none:P1:PATCH:/a:1")
	g.Expect(err).To(MatchError(ContainSubstring(`called "none"`)))
	_, err = chosenScenario("nonsense")
	g.Expect(err).To(MatchError(ContainSubstring("reading plan")))
}

func TestSubsetIsOneOfEachPerturbation(t *testing.T) {
	g := NewWithT(t)
	var plans []scenario.Plan
	for _, kind := range []string{"P1", "P4-409", "P2", "P3", "P4-500"} {
		for _, path := range []string{"/a", "/b", "/c"} {
			plans = append(plans, plan(t, "s:"+kind+":PATCH:"+path+":1"))
		}
	}
	few := subset(plans, rand.New(rand.NewPCG(1, 2)))
	var kinds []string
	for _, p := range few {
		kinds = append(kinds, string(p.Perturbation))
	}
	g.Expect(kinds).To(Equal([]string{"P1", "P2", "P3", "P4"}))
	g.Expect(subset(plans, rand.New(rand.NewPCG(1, 2)))).To(Equal(few), "the same seed, the same plans")
}

func TestParse(t *testing.T) {
	g := NewWithT(t)
	var said bytes.Buffer
	o, err := parse([]string{"-seed=7", "-smoke"}, &said)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.seed).To(BeEquivalentTo(7))
	g.Expect(o.smoke).To(BeTrue())
	o, err = parse(nil, &said)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.seed).NotTo(BeZero(), "a new one")
	_, err = parse([]string{"more"}, &said)
	g.Expect(err).To(MatchError(ContainSubstring(`"more"`)))
}
