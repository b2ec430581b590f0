// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

func plan(t *testing.T, id string) *run.Plan {
	t.Helper()
	p, err := run.ParsePlan(id)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &p
}

// The action of CI keeps what prove has built by this line.
func TestVersion(t *testing.T) {
	g := NewWithT(t)
	var output bytes.Buffer
	g.Expect(execute(t.Context(), []string{"--version"}, &output)).To(Succeed())
	g.Expect(output.String()).To(MatchRegexp(`^prove \S+ \(Kubernetes v1\.\d+\.\d+, go1\.\S+, \w+/\w+\)\n$`))
}

func TestChosenScenarios(t *testing.T) {
	g := NewWithT(t)
	all := []scenario.Scenario{{Name: "one"}, {Name: "two"}}
	g.Expect(chosenScenarios(all, nil, "")).To(Equal(all))
	g.Expect(chosenScenarios(all, []string{"two"}, "")).To(Equal(all[1:]))
	g.Expect(chosenScenarios(all, []string{"two", "one", "two"}, "")).To(Equal(all))
	g.Expect(chosenScenarios(all, nil, "one:crash-after-write:PATCH:/a:1")).To(Equal(all[:1]))
	_, err := chosenScenarios(all, nil, "none:crash-after-write:PATCH:/a:1")
	g.Expect(err).To(MatchError(ContainSubstring(`none is called "none"; there are ["one" "two"]`)))
	_, err = chosenScenarios(all, nil, "nonsense")
	g.Expect(err).To(MatchError(ContainSubstring("reading plan")))
}

func TestSmoke_UsesScenariosWithAllFaults(t *testing.T) {
	g := NewWithT(t)
	some, all := scenario.Scenario{Name: "some", Faults: []scenario.FaultName{"crash-after-write"}},
		scenario.Scenario{Name: "all"}
	g.Expect(whole([]scenario.Scenario{some, all})).To(Equal([]scenario.Scenario{all}))
	g.Expect(whole([]scenario.Scenario{some})).To(Equal([]scenario.Scenario{some}))
}

func TestSubset_OneOfEachFault(t *testing.T) {
	g := NewWithT(t)
	var jobs []job
	for _, kind := range []string{"crash-after-write", "failed-write-409", "late-write", "lost-response", "failed-write-500"} {
		for _, path := range []string{"/a", "/b", "/c"} {
			first, later := plan(t, "s:"+kind+":PATCH:"+path+":1"), plan(t, "s:"+kind+":PATCH:"+path+"/status:2")
			jobs = append(jobs, job{nil, first}, job{nil, later})
		}
	}
	few := subset(jobs, 1)
	var kinds []string
	for _, j := range few {
		kinds = append(kinds, string(j.plan.Fault))
		g.Expect(j.plan.Target.Nth).To(Equal(1), "what is sure to come")
	}
	g.Expect(kinds).To(Equal([]string{"crash-after-write", "failed-write", "late-write", "lost-response"}))
	g.Expect(subset(jobs, 1)).To(Equal(few), "the same seed, the same plans")
}

// A scenario with many writes has many plans, and yet no more of the few than another.
func TestSubset_IsOfAllScenarios(t *testing.T) {
	g := NewWithT(t)
	var jobs []job
	for _, kind := range []string{"crash-after-write", "failed-write-409", "late-write", "lost-response"} {
		for i := range 50 {
			jobs = append(jobs, job{nil, plan(t, fmt.Sprintf("long:%s:PATCH:/a%d:1", kind, i))})
		}
		jobs = append(jobs, job{nil, plan(t, "short:"+kind+":PATCH:/b:1")})
	}
	of := map[string]int{}
	for seed := range uint64(50) {
		for _, j := range subset(jobs, seed) {
			of[j.plan.Scenario]++
		}
	}
	g.Expect(of).To(HaveKeyWithValue("short", BeNumerically("~", 100, 25)), "half of 200")
}

func TestSubset_OneMoreLeavesTheOthers(t *testing.T) {
	g := NewWithT(t)
	var jobs []job
	for _, kind := range []string{"crash-after-write", "late-write", "lost-response"} {
		for _, path := range []string{"/a", "/b", "/c"} {
			jobs = append(jobs, job{nil, plan(t, "s:"+kind+":PATCH:"+path+":1")})
		}
	}
	added := plan(t, "s:late-write:PATCH:/added:1")
	chosen := 0
	for seed := range uint64(40) {
		before := subset(jobs, seed)
		for at := range len(jobs) + 1 {
			after := subset(slices.Insert(slices.Clone(jobs), at, job{nil, added}), seed)
			if after[1].plan == added {
				chosen++
				after[1] = before[1]
			}
			g.Expect(after).To(Equal(before), "seed %d, added at %d", seed, at)
		}
	}
	g.Expect(chosen).NotTo(BeZero(), "another plan may be chosen")
}

func TestIsolationNotice(t *testing.T) {
	g := NewWithT(t)
	g.Expect(isolationNotice(nil)).To(BeEmpty())
	g.Expect(isolationNotice(errors.New("no namespaces"))).
		To(Equal("replicas are not isolated, they share ports and files: no namespaces\n"))
}

// parse returns the options that a command makes of the arguments.
func parse[O any](command func(func(context.Context, O, io.Writer) error) *cobra.Command,
	args ...string) (o O, err error) {
	c := command(func(_ context.Context, got O, _ io.Writer) error {
		o = got
		return nil
	})
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.Execute()
	return o, err
}

// A wrong argument is no finding, and the help is no failure.
func TestExecute(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":                {[]string{"--help"}, 0, "prove --smoke"},
		"help of init":        {[]string{"init", "--help"}, 0, "prove init config/default --binary bin/manager"},
		"schema":              {[]string{"schema", "subject"}, 0, `"title": "subject.yaml of prove"`},
		"schema of scenarios": {[]string{"schema", "scenario"}, 0, `"title": "scenario of prove"`},
		"unknown schema":      {[]string{"schema", "plan"}, 2, `invalid argument "plan"`},
		"faults":              {[]string{"faults"}, 0, "\n- **stale-start**: "},
		"invariants":          {[]string{"invariants"}, 0, "\n- **" + invariant.EndState.Name + "**: "},
		"completion":          {[]string{"completion", "bash"}, 0, "__start_prove"},
		"unknown flag":        {[]string{"--surprise"}, 2, "unknown flag: --surprise"},
		"unknown subcommand":  {[]string{"surprise"}, 2, "unknown command"},
		"no subject":          {[]string{"--subject=none.yaml"}, 2, "none.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var output bytes.Buffer
			err := execute(t.Context(), tc.args, &output)
			g.Expect(program.ExitCode(err, errFound)).To(Equal(tc.code), "%v", err)
			if err != nil {
				output.WriteString(err.Error())
			}
			g.Expect(output.String()).To(ContainSubstring(tc.says))
			g.Expect(output.String()).NotTo(MatchRegexp(`TARGET|COLLECTION|STEP|VARIANT`), "each placeholder of a page is filled")
		})
	}
}
