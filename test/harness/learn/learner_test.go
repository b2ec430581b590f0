// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/run"
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
	_, err = waitForLease(t.Context(), c, before, func() bool { return false })
	g.Expect(err).To(MatchError("waiting for a Lease of the operator: the program ended"))
	g.Expect(c.Create(t.Context(), lease("ns", "new", "manager-0_1"))).To(Succeed())
	g.Expect(waitForLease(t.Context(), c, before, func() bool { return true })).To(Equal(
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
		_, err := waitForLease(t.Context(), c, nil, func() bool { return true })
		NewWithT(t).Expect(err).To(MatchError("waiting for a Lease of the operator: the operator acquired no Lease within 1m0s"))
	})
}

// A program that does not end at SIGTERM is a finding; what else a stop shows is an error.
func TestNoteNotEnded(t *testing.T) {
	g := NewWithT(t)
	var output strings.Builder
	notEnded, other := fmt.Errorf("stopping manager-0: %w", env.ErrNotEnded), errors.New("the port is in use")
	g.Expect(NoteNotEnded(&output, errors.Join(errors.Join(notEnded, nil), nil))).To(Succeed())
	g.Expect(output.String()).To(Equal("finding: stopping manager-0: the program did not end\n"))
	g.Expect(NoteNotEnded(&output, errors.Join(notEnded, other))).To(MatchError(other))
	g.Expect(NoteNotEnded(&output, nil)).To(Succeed())
}

// endingReplica is a replica whose process ends a number of times.
type endingReplica struct{ ends, restarts int }

func (p *endingReplica) Running() bool { return p.ends == p.restarts }

func (p *endingReplica) Restart() error {
	p.restarts++
	return nil
}

func TestRestarting(t *testing.T) {
	g := NewWithT(t)
	for ends, want := range map[int]bool{0: true, 1: true, maxRestarts: true, maxRestarts + 1: false} {
		p := &endingReplica{ends: ends}
		running := (&learner{output: io.Discard}).restarting(p)
		for range maxRestarts {
			running()
		}
		g.Expect(running()).To(Equal(want), "it ends %d times", ends)
		g.Expect(p.restarts).To(Equal(min(ends, maxRestarts)))
	}
}

func TestLogTails_NamesTheMissingDefinition(t *testing.T) {
	const missing = `{"level":"error","ts":1,"error":"no matches for kind \"Certificate\" in version \"cert-manager.io/v1\""}`
	NewWithT(t).Expect(logTails(map[string][]byte{"a": []byte("starts\n" + missing + "\n")})).To(Equal("    the last errors in the log of a:\n" +
		"        " + missing + "\n    the API server does not serve Certificate of cert-manager.io/v1: set --crds to the file or " +
		"directory of its CustomResourceDefinition\n"))
}

// The forms of the samples are tried until the operator completes the object. The first of the best is used.
func TestChoose(t *testing.T) {
	samples := []Sample{sampleOf(t, guestbook("{name: main}", "{secret: key}")),
		sampleOf(t, "{apiVersion: v1, kind: Secret, metadata: {name: key}}"), sampleOf(t, "{apiVersion: v1, kind: Secret, metadata: {name: pool}}")}
	const plain, own, whole = "{guestbook} {secret}", "main key", "{guestbook} {secret-2} {secret}"
	refused := fmt.Errorf("the API server refused the sample: %w", &run.RefusedError{Rejection: history.Rejection{Message: "the name is\nnot main"}})
	stale := &run.RefusedError{Rejection: history.Rejection{Message: ".spec.old: field not declared in schema"}}
	broken := errors.New("no control plane")
	fails := errors.New("the status reports a failure")
	for name, tc := range map[string]struct {
		outcomes  map[string]error
		want, why string
		tried     int
	}{
		"Plain":        {nil, plain, "", 1},
		"OwnNames":     {map[string]error{plain: refused}, own, "keep the names of the samples, because otherwise the API server answers: the name is not main", 2},
		"Whole":        {map[string]error{plain: errIgnored, own: errIgnored}, whole, "those of all samples, because otherwise the operator writes nothing", 3},
		"FailsInAll":   {map[string]error{plain: fails, own: fails, whole: refused}, plain, "", 3},
		"BetterFails":  {map[string]error{plain: errIgnored, own: refused, whole: fails}, whole, "", 3},
		"RefusedInAll": {map[string]error{plain: refused, own: refused, whole: refused}, plain, "", 3},
		"StaleSample":  {map[string]error{plain: stale}, plain, "", 1},
		"HarnessFails": {map[string]error{plain: broken}, plain, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			g, tried := NewWithT(t), 0
			best := choose(kindsOf(t, samples, definition(t, guestbooks))[0], func(k DraftKind, _ string) attempt {
				tried++
				err := tc.outcomes[namesOf(k)]
				if errors.Is(err, fails) {
					k.Fails, err = true, nil
				}
				return attempt{kind: k, err: err}
			})
			g.Expect(namesOf(best.kind)).To(Equal(tc.want))
			g.Expect(tried).To(Equal(tc.tried))
			g.Expect(strings.Join(best.kind.Guesses, "")).To(ContainSubstring(tc.why))
			g.Expect(strings.Join(best.kind.Guesses, "")).NotTo(ContainSubstring("\n"))
		})
	}
}

// namesOf are the names of a kind's objects, the one of the kind first.
func namesOf(k DraftKind) string {
	names := []string{k.Objects[k.Main].GetName()}
	for i, o := range k.Objects {
		if i != k.Main {
			names = append(names, o.GetName())
		}
	}
	return strings.Join(names, " ")
}

// A sample that taught nothing is no success, even if others did. A kind without a sample is no error.
func TestUntaught(t *testing.T) {
	g := NewWithT(t)
	kinds := kindsOf(t, []Sample{sampleOf(t, guestbook("{name: mine}", "{}"))}, definition(t, guestbooks), backups(t))
	d := &Draft{Kinds: kinds}
	g.Expect(d.untaught()).To(Succeed())
	d.Kinds[1].Problem = errIgnored.Error()
	g.Expect(d.untaught()).To(Succeed(), "there is no sample of a Backup")
	d.Kinds[0].Problem = errIgnored.Error()
	g.Expect(d.untaught()).To(MatchError(ContainSubstring("nothing was learned from the samples of guestbook, so")))
}
