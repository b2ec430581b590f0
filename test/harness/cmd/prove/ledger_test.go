// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

const planID = "tenant-life:lost-response:PATCH:/apis/leasehold.dev/v1beta1/tenants/{acme}:1"

// after returns a run with a result, with a plan or without one.
func after(t *testing.T, r invariant.Result, id string) ran {
	t.Helper()
	h := &history.History{Recorded: []history.Source{history.Audit}}
	verdict := invariant.Verdict{Invariant: "end-state", Promise: "whatever", Result: r}
	if r == invariant.Broken {
		verdict.Violations = []invariant.Violation{{Message: "it is not so"}}
	}
	over := ran{
		reference: &run.Reference{Scenario: scenario.Scenario{Name: "tenant-life", Invariants: []string{"end-state"}},
			Histories: []*history.History{h}},
		outcome: run.Judged{Outcome: invariant.Outcome{Scenario: "tenant-life", Result: r, Took: 20 * time.Second,
			Verdicts: []invariant.Verdict{verdict}}, History: h, AuditLog: []byte("{}\n"),
			Logs: map[string][]byte{"manager-0": []byte("the webhook has no certificate\n")}},
	}
	if r == invariant.Inconclusive {
		over.outcome.Verdicts[0].Doubts = []string{"it has no record"}
	}
	if id != "" {
		over.plan = plan(t, id)
		over.outcome.Faults = []history.FaultRecord{{Name: id, Detail: "PATCH /x", Happened: 1}}
	}
	return over
}

// opened is a ledger in which an hour has 120 runs.
func opened(t *testing.T, o options) (l *ledger, output *bytes.Buffer, wait func()) {
	t.Helper()
	output = &bytes.Buffer{}
	o.subject, o.seed, o.dir, o.make = "test/prove/subject.yaml", 7, t.TempDir(), true
	l = newLedger(o, invariant.Contract{Users: []string{"op"}}, output)
	clock := testclock.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	l.clock = clock
	return l, output, func() { clock.SetTime(clock.Now().Add(30 * time.Second)) }
}

// The words of a sweep, and what is kept of a plan that did not hold. Each output about a run mentions a release of the
// Lease by the harness. The output has one line for an object, and verdicts.txt has each violation.
func TestLedger_KeepsAndReportsFailedRuns(t *testing.T) {
	g := NewWithT(t)
	l, output, wait := opened(t, options{})
	g.Expect(l.compared(after(t, invariant.Held, ""))).To(Succeed())
	l.expect(3)
	about := func(message string) invariant.Violation {
		return invariant.Violation{Message: message, Signature: message, Objects: []string{"things t"}}
	}
	broken := after(t, invariant.Broken, planID)
	broken.outcome.Verdicts[0].Violations = []invariant.Violation{about("it is not so"), about("nor so")}
	broken.outcome.History.Releases = []history.LeaseRelease{{Replica: "one", Identity: "one_x", ResourceVersion: "9"}}
	for _, r := range []ran{after(t, invariant.Held, planID), broken} {
		wait()
		g.Expect(l.add(r)).To(Succeed())
	}
	g.Expect(l.close(nil)).To(MatchError(errFound))
	const release = "release: the harness, not the operator, released the Lease of replica one, whose process had ended, at resourceVersion 9"
	for _, text := range []string{
		"clean run 1: held in 20s", "plan 2 of 3: broken", "(20.0 s; 120 an hour, 30s to go)",
		"    broken: it is not so; and 1 more about things t, in verdicts.txt\n",
		"fault: PATCH /x", "the end of the log of manager-0:\n        the webhook has no certificate",
		"again: make prove SEED=7 PLAN='" + planID + "'", "| tenant-life lost-response | 1    | 1 ",
		release, "In 1 of 2 runs the harness, not the operator, released the Lease",
		"2 plans, 120 an hour: 1 held, 1 broken, 0 inconclusive, 0 void",
	} {
		g.Expect(output.String()).To(ContainSubstring(text))
	}
	found, err := report.Find(l.options.dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(HaveLen(1), "not what has held")
	g.Expect(output.String()).To(ContainSubstring("timeline: " + filepath.Join(found[0], "timeline.html")))
	back, err := report.Load(found[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(back.Plan).To(Equal(planID))
	g.Expect(back.Fault).To(Equal("lost-response"))
	g.Expect(back.Words).To(ContainSubstring("response is lost"))
	g.Expect(back.Seed).To(BeEquivalentTo(7))
	g.Expect(back.Invariants).To(Equal([]string{"end-state"}))
	g.Expect(back.Contract.Users).To(Equal([]string{"op"}))
	g.Expect(back.References).To(HaveLen(1))
	g.Expect(back.History.Releases).To(Equal(broken.outcome.History.Releases))
	g.Expect(os.ReadFile(filepath.Join(found[0], "verdicts.txt"))).To(And(ContainSubstring(release),
		ContainSubstring("    broken: it is not so\n    broken: nor so\n")))
	for _, file := range []string{"summary.json", "summary.md", "junit.xml"} {
		g.Expect(filepath.Join(l.options.dir, file)).To(BeARegularFile())
	}
	g.Expect(folder(planID)).To(MatchRegexp(`^[\w.-]+$`))
	g.Expect(folder(strings.Repeat("/long", 100))).To(HaveLen(200))
}

func TestLedger_KeepsHeldRunsOnRequest(t *testing.T) {
	g := NewWithT(t)
	l, _, wait := opened(t, options{keep: true})
	g.Expect(l.compared(after(t, invariant.Held, ""))).To(Succeed())
	g.Expect(l.compared(after(t, invariant.Held, ""))).To(Succeed())
	l.expect(1)
	wait()
	g.Expect(l.add(after(t, invariant.Held, planID))).To(Succeed())
	g.Expect(l.close(nil)).To(Succeed(), "all has held")
	g.Expect(report.Find(l.options.dir)).To(HaveLen(3))
}

func TestLedger_ReferencesMustHold(t *testing.T) {
	g := NewWithT(t)
	l, output, wait := opened(t, options{})
	g.Expect(l.compared(after(t, invariant.Inconclusive, ""))).To(Succeed())
	g.Expect(output.String()).To(ContainSubstring("inconclusive: it has no record"), "why it is inconclusive")
	g.Expect(output.String()).To(ContainSubstring("again: make prove SEED=7 PROVE_FLAGS='--scenario=tenant-life --clean=1'"))
	l.expect(1)
	wait()
	g.Expect(l.add(after(t, invariant.Held, planID))).To(Succeed())
	g.Expect(l.close(nil)).To(MatchError(errFound), "what plans are compared with has to be sound")
}

func TestLedger_NamesKnownViolationsOfCleanRuns(t *testing.T) {
	g := NewWithT(t)
	l, output, _ := opened(t, options{})
	g.Expect(l.compared(after(t, invariant.Held, ""))).To(Succeed())
	known := after(t, invariant.Held, "")
	known.outcome.Verdicts = []invariant.Verdict{{Known: []invariant.Violation{{}, {}}}}
	g.Expect(l.compared(known)).To(Succeed())
	g.Expect(output.String()).To(MatchRegexp(`run 1: held in \S+\nclean run 2: held in \S+; violations that an earlier one has shown: 2\n`))
	g.Expect(l.close(nil)).To(Succeed())
	g.Expect(output.String()).To(ContainSubstring("0 plans, 0 an hour"), "of a sweep that ends before its first plan")
}

// A rejected step is in the output and in the files of a run that proves nothing because of it.
func TestLedger_ReportsRejections(t *testing.T) {
	g := NewWithT(t)
	l, output, wait := opened(t, options{})
	l.expect(1)
	wait()
	denied := after(t, invariant.Inconclusive, planID)
	denied.outcome.History.Rejections = []history.Rejection{{Step: "step 2 rename", Object: "Tenant acme",
		Message: "denied"}}
	denied.outcome.History.Leftovers = []history.Key{{Resource: history.Resource{Resource: "clusterroles"}, Name: "a"}}
	for _, name := range []string{"b-x7k2q", "b-9zcvw"} {
		secret := history.Key{Resource: history.Resource{Resource: "secrets"}, Namespace: "n", Name: name}
		o := &unstructured.Unstructured{}
		o.SetGenerateName("b-")
		denied.outcome.History.Versions = append(denied.outcome.History.Versions,
			history.Version{Key: secret, UID: types.UID(name), RevisionRange: history.At(3), Object: o})
		denied.outcome.History.Leftovers = append(denied.outcome.History.Leftovers, secret)
	}
	denied.outcome.Verdicts[0].Invariant, denied.reference.Scenario.Invariants = "convergence", nil
	g.Expect(l.add(denied)).To(Succeed())
	rejection := "rejection: step 2 rename of Tenant acme was rejected: denied"
	left := "left behind: the operator created clusterroles a, and did not delete it"
	both := And(ContainSubstring(rejection), ContainSubstring(left))
	g.Expect(output.String()).To(And(both, ContainSubstring("inconclusive: it has no record")))
	g.Expect(l.sweep.Outcomes[0].Leftovers).To(Equal([]string{"clusterroles a", "secrets n/b-*"}))
	found, err := report.Find(l.options.dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.ReadFile(filepath.Join(found[0], "verdicts.txt"))).To(both)
}

func TestReplay(t *testing.T) {
	g := NewWithT(t)
	const id = "life:crash-after-write:POST:/a:1"
	o := options{subject: "prove/subject.yaml", seed: 7}
	g.Expect(o.replay("life", id)).To(Equal("go tool prove --seed=7 --plan='" + id + "'"))
	o.subject = "its/subject.yaml"
	g.Expect(o.replay("life", id)).To(Equal("go tool prove --subject='its/subject.yaml' --seed=7 --plan='" + id + "'"))
	g.Expect(o.replay("life", "")).To(Equal("go tool prove --subject='its/subject.yaml' --seed=7 --scenario=life --clean=1"))
	o.make = true
	g.Expect(o.replay("life", id)).To(Equal("make prove SUBJECT='its/subject.yaml' SEED=7 PLAN='" + id + "'"))
	g.Expect(o.replay("life", "")).
		To(Equal("make prove SUBJECT='its/subject.yaml' SEED=7 PROVE_FLAGS='--scenario=life --clean=1'"))
	o.subject = "test/prove/subject.yaml"
	g.Expect(o.replay("life", id)).To(Equal("make prove SEED=7 PLAN='" + id + "'"))
}

// Commands to repeat a run begin as the user began.
func TestCommandName(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	g.Expect(commandName()).To(Equal("go tool prove"))
	own, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.Symlink(own, filepath.Join(dir, "prove"))).To(Succeed())
	g.Expect(commandName()).To(Equal("prove"))
	g.Expect(os.Remove(filepath.Join(dir, "prove"))).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "prove"), nil, 0o700)).To(Succeed())
	g.Expect(commandName()).To(Equal("go tool prove"), "another program has the name")
}
