// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/learn"
)

func TestWaitForLease(t *testing.T) {
	g := NewWithT(t)
	lease := func(namespace, name, holder string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{}
		l.Namespace, l.Name, l.Spec.HolderIdentity = namespace, name, &holder
		return l
	}
	c := fake.NewClientBuilder().WithObjects(lease("kube-system", "apiserver-x", "a"), lease("kube-system", "old", "a"),
		lease("ns", "released", "")).Build()
	before, err := leases(t.Context(), c)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(before).To(HaveLen(1))
	_, err = waitForLease(t.Context(), c, before, leaseTimeout, func() bool { return false })
	g.Expect(err).To(MatchError(ContainSubstring("waiting for a Lease of the operator: the program ended")))
	g.Expect(c.Create(t.Context(), lease("ns", "new", "manager-0_1"))).To(Succeed())
	g.Expect(waitForLease(t.Context(), c, before, leaseTimeout, func() bool { return true })).To(Equal(
		[]history.Key{{Resource: history.Leases, Namespace: "ns", Name: "new"}}))
}

func TestWaitForLease_none(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
				<-ctx.Done()
				return ctx.Err()
			},
		}).Build()
		_, err := waitForLease(t.Context(), c, nil, refusedTimeout, func() bool { return true })
		NewWithT(t).Expect(err).To(MatchError("waiting for a Lease of the operator: the operator acquired no Lease " +
			"within 15s"))
	})
}

// A program that does not end at SIGTERM is a finding; what else a stop shows is an error.
func TestNoteNotEnded(t *testing.T) {
	g := NewWithT(t)
	var output strings.Builder
	notEnded, other := fmt.Errorf("stopping manager-0: %w", env.ErrNotEnded), errors.New("the port is in use")
	g.Expect(noteNotEnded(&output, errors.Join(errors.Join(notEnded, nil), nil))).To(Succeed())
	g.Expect(output.String()).To(Equal("finding: stopping manager-0: the program did not end\n"))
	g.Expect(noteNotEnded(&output, errors.Join(notEnded, other))).To(MatchError(other))
	output.Reset()
	g.Expect(noteNotEnded(&output, nil)).To(Succeed())
	g.Expect(output.String()).To(BeEmpty())
}

func TestElectionAdvice(t *testing.T) {
	shipped := &appsv1.Deployment{}
	shipped.Namespace, shipped.Spec.Template.Spec.ServiceAccountName = "ns", "account"
	const flags, rights = "check whether it needs a flag", "its ServiceAccount is not allowed to create Leases in namespace ns; add a Role"
	for name, each := range map[string]struct {
		allowed bool
		fail    error
		timeout time.Duration
		want    string
	}{
		"NoRight":     {false, nil, refusedTimeout, rights},
		"Right":       {true, nil, leaseTimeout, flags},
		"NotAnswered": {false, errors.New("no answer"), leaseTimeout, flags},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
					review := o.(*authorizationv1.SubjectAccessReview)
					g.Expect(review.Spec.User).To(Equal("system:serviceaccount:ns:account"))
					g.Expect(review.Spec.Groups).To(ConsistOf("system:authenticated", "system:serviceaccounts",
						"system:serviceaccounts:ns"))
					g.Expect(review.Spec.ResourceAttributes).To(HaveValue(Equal(authorizationv1.ResourceAttributes{
						Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: "ns",
					})))
					review.Status.Allowed = each.allowed
					return each.fail
				},
			}).Build()
			timeout, advice := electionAdvice(t.Context(), c, shipped)
			g.Expect(timeout).To(Equal(each.timeout))
			g.Expect(advice).To(ContainSubstring(each.want))
		})
	}
}

func TestRestarting(t *testing.T) {
	g := NewWithT(t)
	run := func(ends int) (p *endingReplica, running func() bool, output *strings.Builder) {
		output = &strings.Builder{}
		p = &endingReplica{t: t, log: filepath.Join(t.TempDir(), "log"), ends: ends}
		p.write("12:00:00 no certificate yet\n")
		return p, (&learner{output: output}).restarting(p, &programLog{path: p.log}), output
	}
	p, running, output := run(2)
	for range 3 {
		g.Expect(running()).To(BeTrue())
	}
	g.Expect(p.restarts).To(Equal(2))
	g.Expect(strings.Count(output.String(), "no certificate yet")).To(Equal(1), "only the time has changed")
	g.Expect(strings.Count(output.String(), "the same as before")).To(Equal(1))
	p.ends = 1
	p.write("no flag zone\n")
	g.Expect(running()).To(BeTrue())
	g.Expect(output.String()).To(ContainSubstring("no flag zone"), "another cause is printed")

	_, running, _ = run(100)
	for range maxRestarts {
		g.Expect(running()).To(BeTrue())
	}
	g.Expect(running()).To(BeFalse(), "it ends for good")
}

func TestProgramLog_HasTheErrorBeforeTheUsage(t *testing.T) {
	g := NewWithT(t)
	own := &programLog{path: filepath.Join(t.TempDir(), "log")}
	usage := strings.Repeat("  --flag string\n", logLines)
	g.Expect(os.WriteFile(own.path, []byte("unknown flag: --region\n"+usage), 0o600)).To(Succeed())
	g.Expect(own.next()).To(HavePrefix("unknown flag: --region\n...\n  --flag string\n"))
}

// What a manager logs while it stops comes in another order each time.
func TestProgramLog_HasTheErrors(t *testing.T) {
	g := NewWithT(t)
	own := &programLog{path: filepath.Join(t.TempDir(), "log")}
	one, other := `{"level":"error","error":"no tls.crt","stacktrace":"main.go:5"}`, "E0102 03:04:05.6 1 a.go:1] lease lost"
	text := "starts\n" + one + "\nstops\n" + other + "\n"
	g.Expect(os.WriteFile(own.path, []byte(text), 0o600)).To(Succeed())
	g.Expect(own.next()).To(Equal(`{"level":"error","error":"no tls.crt"}` + "\n" + other))
	text += "starts\n" + other + "\n" + one + "\n"
	g.Expect(os.WriteFile(own.path, []byte(text), 0o600)).To(Succeed())
	g.Expect(own.next()).To(Equal("the same as before"))
	text += other + "\nno such zone\n"
	g.Expect(os.WriteFile(own.path, []byte(text), 0o600)).To(Succeed())
	g.Expect(own.next()).To(Equal(other+"\nno such zone"), "the last line may have no level")
}

// What was learned before an interruption is written, and the rest is named.
func TestInterrupted_KeepsWhatIsLearned(t *testing.T) {
	g := NewWithT(t)
	all := append(backups(t), backups(t)...)
	all[1].Word = "restore"
	l := &learner{draft: &learn.Draft{Name: "small", Kinds: all}}
	g.Expect(l.interrupted(0, context.Canceled)).To(MatchError(context.Canceled), "there is nothing to keep")
	l.draft.Kinds[0].Problem = "the API server refused the sample"
	g.Expect(l.interrupted(1, context.Canceled)).To(MatchError("context canceled; backup-life: the API server refused the sample"),
		"no kind has worked")
	l.draft.Kinds[0].Problem = ""
	g.Expect(l.interrupted(1, context.Canceled)).To(Succeed())
	g.Expect(l.undone).To(MatchError("it was interrupted: 1 of 2 kinds are described"))
	files, err := write(t.TempDir(), l.draft)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(2))
	g.Expect(os.ReadFile(files[0])).To(ContainSubstring("There is no scenario of it: prove init was interrupted before it."))
}

func TestLearned(t *testing.T) {
	g := NewWithT(t)
	k := &learn.DraftKind{Until: "condition: Ready"}
	g.Expect(learned(k)).To(Equal(`it waits for "condition: Ready", and the operator makes nothing that names the object`))
	jobs := invariant.Child{Resource: history.Resource{Group: "batch", Resource: "jobs"}}
	k.Children, k.Pause = []invariant.Child{jobs, {Resource: history.Secrets}, jobs}, 10_004*time.Millisecond
	g.Expect(learned(k)).To(Equal(`it waits for "condition: Ready", and the operator makes jobs.batch, secrets; it pauses for 10s`))
}

// An interruption while the object of a kind is grown leaves the scenario of its life.
func TestInterrupted_WhileAnObjectIsGrown(t *testing.T) {
	g := NewWithT(t)
	d := &learn.Draft{Kinds: backups(t)}
	k, l := &d.Kinds[0], &learner{draft: d}
	g.Expect(k.Grow(learn.GrowAll)).To(BeTrue())
	failed := errors.New("the replicas did not become ready")
	g.Expect(l.withoutChange(t.Context(), k, nil)).To(Succeed())
	g.Expect(l.withoutChange(t.Context(), k, failed)).To(MatchError(failed))
	g.Expect(d.Scenarios(k)).To(HaveLen(2))
	g.Expect(l.undone).To(Succeed())
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	g.Expect(l.withoutChange(ctx, k, failed)).To(Succeed())
	g.Expect(d.Scenarios(k)).To(HaveExactElements(And(HaveField("Name", "backup-life"),
		HaveField("Text", ContainSubstring("# guess: prove init was interrupted before it had a scenario with a change.")))))
	g.Expect(l.undone).To(MatchError("it was interrupted: backup has no scenario with a change"))
}

func TestKeep_KeepsWhatWasTried(t *testing.T) {
	g := NewWithT(t)
	l := &learner{draft: &learn.Draft{Name: "small", Kinds: backups(t)}, dir: t.TempDir()}
	file, err := l.keep(&l.draft.Kinds[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.ReadFile(file)).To(ContainSubstring("name: backup-life"))
	g.Expect(l.kept).To(BeTrue())
}

func TestSuggestKind(t *testing.T) {
	g := NewWithT(t)
	var output strings.Builder
	l := &learner{draft: &learn.Draft{Kinds: append(backups(t), backups(t)...)}, output: &output}
	l.suggestKind(0, 59*time.Second)
	g.Expect(output.String()).To(BeEmpty())
	l.suggestKind(0, time.Minute)
	l.suggestKind(0, time.Hour)
	g.Expect(output.String()).To(Equal("1 kinds are left; --kind=Backup describes one alone, and an interrupt writes what is done\n"))
}
