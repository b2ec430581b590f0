package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
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
	g.Expect(err).To(MatchError(ContainSubstring("waiting for a Lease of the operator: the program ended")))
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
		NewWithT(t).Expect(err).To(MatchError("waiting for a Lease of the operator: it took none within 1m0s"))
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
	const flags = "see whether it needs a flag, and whether it takes its namespace from a flag or from POD_NAMESPACE"
	for name, each := range map[string]struct {
		allowed bool
		fail    error
		want    string
	}{
		"NoRight": {false, nil, flags + "; its ServiceAccount may not create Leases in namespace ns, " +
			"and an operator without leader election cannot be judged"},
		"Right":       {true, nil, flags},
		"NotAnswered": {false, errors.New("no answer"), flags},
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
			g.Expect(electionAdvice(t.Context(), c, shipped)).To(Equal(each.want))
		})
	}
}
