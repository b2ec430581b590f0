// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/scenario"
)

// newHostileExecution returns an execution whose authorizer allows reads, and other requests as the
// test specifies. Users may not write objects called forbidden.
func newHostileExecution(t *testing.T, allows func() bool) *execution {
	t.Helper()
	run := newExecution(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object,
		opts ...client.CreateOption) error {
		if review, is := o.(*authorizationv1.SubjectAccessReview); is {
			review.Status.Allowed = review.Spec.ResourceAttributes.Verb == "get" || allows()
			return nil
		}
		return c.Create(ctx, o, opts...)
	}})
	run.prover.impersonate = func(scenario.User) (client.Client, error) {
		return interceptor.NewClient(run.prover.client.(client.WithWatch), interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
				opts ...client.ApplyOption) error {
				if named, is := o.(interface{ GetName() string }); is && strings.HasPrefix(named.GetName(), "forbidden") {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "forbidden", errors.New("no right"))
				}
				return c.Apply(ctx, o, opts...)
			},
		}), nil
	}
	return run
}

func applied(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "ns", "name": name}}
}

var mallory = scenario.User{Name: "mallory", Namespace: "ns", Role: "edit"}

func TestUsers_StepsActAsUsers(t *testing.T) {
	g := NewWithT(t)
	run := newHostileExecution(t, func() bool { return true })
	_, err := run.runSteps(t.Context(),
		scenario.Scenario{Name: "s", Users: []scenario.User{mallory}, Steps: []scenario.Step{
			{Name: "accepted", As: "mallory", Apply: applied("a")},
			{Name: "refused", As: "mallory", Apply: applied("forbidden"), Refused: scenario.MustRefuse},
			{Name: "not refused", As: "mallory", Apply: applied("b"), Refused: scenario.MustRefuse},
			{Name: "either", As: "mallory", Apply: applied("forbidden"), Refused: scenario.MayRefuse},
		}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(run.configMap(t, "a")).Error().NotTo(HaveOccurred())
	var binding rbacv1.RoleBinding
	g.Expect(run.prover.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "scenario:edit:mallory"},
		&binding)).To(Succeed())
	g.Expect(binding.RoleRef.Name).To(Equal("edit"))
	g.Expect(binding.Subjects).To(ConsistOf(HaveField("Name", "mallory")))
	g.Expect(run.decisions).To(HaveExactElements(
		And(HaveField("Step", "refused"), HaveField("Action", "mallory may apply ConfigMap ns/forbidden"),
			HaveField("Allowed", false), HaveField("Want", false)),
		And(HaveField("Step", "not refused"), HaveField("Allowed", true), HaveField("Want", false)),
	))

	t.Log("a refusal that no step expects is recorded")
	_, err = run.runSteps(t.Context(), scenario.Scenario{Users: []scenario.User{mallory},
		Steps: []scenario.Step{{As: "mallory", Apply: applied("forbidden")}}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(run.rejections).To(HaveExactElements(
		And(HaveField("Step", "step 4 either"), HaveField("Allowed", true)),
		And(HaveField("Message", ContainSubstring("no right")), HaveField("Allowed", false))))
	g.Expect(run.cleanUp(t.Context())).To(Succeed())
	g.Expect(apierrors.IsNotFound(run.prover.client.Get(t.Context(), client.ObjectKeyFromObject(&binding), &binding))).
		To(BeTrue())
}

func TestUsers_ExpectedAccess(t *testing.T) {
	g := NewWithT(t)
	asked := 0
	run := newHostileExecution(t, func() bool { asked++; return asked > 2 })
	may := func(allowed bool) scenario.Step {
		return scenario.Step{Name: "look", May: &scenario.Access{
			User: "alice", Verb: "create", Resource: "things.example.com", Allowed: allowed,
			Within: metav1.Duration{Duration: 300 * time.Millisecond},
		}}
	}
	g.Expect(run.checkAccess(t.Context(), may(true))).To(Succeed(), "it is permitted after a moment")
	g.Expect(run.checkAccess(t.Context(), may(false))).To(Succeed(), "it is never permitted")
	g.Expect(run.decisions).To(HaveExactElements(
		And(HaveField("Want", true), HaveField("Allowed", true)),
		And(HaveField("Want", false), HaveField("Allowed", true),
			HaveField("Action", ContainSubstring("alice may create things.example.com"))),
	))
}
