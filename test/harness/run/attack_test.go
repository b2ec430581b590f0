package run

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/scenario"
)

// hostileWorld is a world whose authorizer allows reads, and all else as a test says.
// Users may not write objects called forbidden.
func hostileWorld(t *testing.T, allows func() bool) *trial {
	t.Helper()
	run := world(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if review, is := o.(*authorizationv1.SubjectAccessReview); is {
			review.Status.Allowed = review.Spec.ResourceAttributes.Verb == "get" || allows()
			return nil
		}
		return c.Create(ctx, o, opts...)
	}})
	run.prover.impersonate = func(scenario.User) (client.Client, error) {
		return interceptor.NewClient(run.prover.client.(client.WithWatch), interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if named, is := o.(interface{ GetName() string }); is && named.GetName() == "forbidden" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "forbidden", errors.New("no right"))
				}
				return c.Apply(ctx, o, opts...)
			},
		}), nil
	}
	return run
}

func applied(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "ns", "name": name}}
}

var mallory = scenario.User{Name: "mallory", Namespace: "ns", Role: "edit"}

func TestStepsOfAUser(t *testing.T) {
	g := NewWithT(t)
	run := hostileWorld(t, func() bool { return true })
	_, err := run.drive(t.Context(), scenario.Scenario{Name: "s", Users: []scenario.User{mallory}, Steps: []scenario.Step{
		{Name: "accepted", As: "mallory", Apply: applied("a")},
		{Name: "refused", As: "mallory", Apply: applied("forbidden"), Refused: scenario.MustRefuse},
		{Name: "not refused", As: "mallory", Apply: applied("b"), Refused: scenario.MustRefuse},
		{Name: "either", As: "mallory", Apply: applied("forbidden"), Refused: scenario.MayRefuse},
	}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(run.prover.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "a"}, &corev1.ConfigMap{})).To(Succeed())
	var binding rbacv1.RoleBinding
	g.Expect(run.prover.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "scenario:edit:mallory"}, &binding)).To(Succeed())
	g.Expect(binding.RoleRef.Name).To(Equal("edit"))
	g.Expect(binding.Subjects).To(ConsistOf(HaveField("Name", "mallory")))
	g.Expect(run.decisions).To(HaveExactElements(
		And(HaveField("Step", "refused"), HaveField("Action", "mallory may apply ConfigMap ns/forbidden"), HaveField("Allowed", false), HaveField("Want", false)),
		And(HaveField("Step", "not refused"), HaveField("Allowed", true), HaveField("Want", false)),
	))

	t.Log("a refusal that no step expects is an error")
	_, err = run.drive(t.Context(), scenario.Scenario{Users: []scenario.User{mallory}, Steps: []scenario.Step{{As: "mallory", Apply: applied("forbidden")}}})
	g.Expect(err).To(MatchError(ContainSubstring("no right")))
	g.Expect(run.clear(t.Context())).To(Succeed())
	g.Expect(apierrors.IsNotFound(run.prover.client.Get(t.Context(), client.ObjectKeyFromObject(&binding), &binding))).To(BeTrue())
}

func TestExpectedAccess(t *testing.T) {
	g := NewWithT(t)
	asked := 0
	run := hostileWorld(t, func() bool { asked++; return asked > 2 })
	may := func(allowed bool) scenario.Step {
		return scenario.Step{Name: "look", May: &scenario.Access{
			User: "alice", Verb: "create", Resource: "things.example.com", Allowed: allowed, Within: metav1.Duration{Duration: 300 * time.Millisecond},
		}}
	}
	g.Expect(run.expects(t.Context(), may(true))).To(Succeed(), "it comes after a moment")
	g.Expect(run.expects(t.Context(), may(false))).To(Succeed(), "it never comes")
	g.Expect(run.confirm(t.Context(), "a fault")).To(Succeed())
	g.Expect(run.decisions).To(HaveExactElements(
		And(HaveField("Want", true), HaveField("Allowed", true), HaveField("During", "")),
		And(HaveField("Want", false), HaveField("Allowed", true), HaveField("Action", ContainSubstring("alice may create things.example.com"))),
		And(HaveField("Want", true), HaveField("Allowed", true), HaveField("During", "a fault")),
		And(HaveField("Want", false), HaveField("Allowed", true)),
	))
	_, err := run.drive(t.Context(), scenario.Scenario{Steps: []scenario.Step{{Apply: applied("a")}}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(run.standing).To(BeEmpty(), "what a step has changed is not expected to stay")
}

// attacking is a scenario with an attack, and a plan for it.
func attacking(t *testing.T, run *trial, a scenario.Attack) scenario.Scenario {
	t.Helper()
	s := scenario.Scenario{Name: "s", Users: []scenario.User{mallory}, Steps: []scenario.Step{
		{Apply: applied("before")}, {Name: "storm", As: "mallory", Attack: &a}, {Apply: applied("after")},
	}}
	plan := scenario.Plan{Scenario: "s", Perturbation: scenario.Hostile, Target: scenario.Target{Method: scenario.AttackTarget, Path: "storm", Nth: 2}}
	var err error
	run.armed, err = run.prover.arm(t.Context(), s, plan, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

func TestAttacks(t *testing.T) {
	for name, tc := range map[string]struct {
		attack   string
		object   string
		count    int
		happened int
		detail   string
		left     []string // while it lasts
	}{
		"Many":    {"many-objects", "m-$(index)", 3, 1, "many-objects by mallory: 3 of 3 accepted", []string{"m-0", "m-2"}},
		"Churn":   {"high-churn", "m", 3, 1, "high-churn by mallory: 3 of 3 accepted", []string{"m"}},
		"Refused": {"high-churn", "forbidden", 3, 0, "nothing of the attack was accepted: ", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run := hostileWorld(t, func() bool { return true })
			template := applied(tc.object)
			template["data"] = map[string]any{"version": "$(index)"}
			s := attacking(t, run, scenario.Attack{Name: tc.attack, Namespace: "ns", Count: tc.count, Template: template})
			_, err := run.drive(t.Context(), s)
			g.Expect(err).NotTo(HaveOccurred())
			for _, object := range tc.left {
				g.Eventually(func() error {
					return run.prover.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: object}, &corev1.ConfigMap{})
				}, eventually).Should(Succeed())
			}
			g.Eventually(func() bool {
				run.armed.mu.Lock()
				defer run.armed.mu.Unlock()
				return len(run.armed.happenings) > 0 || run.armed.missed != ""
			}, eventually).Should(BeTrue())
			g.Expect(run.armed.disarm()).To(Succeed())
			f := run.armed.result()
			g.Expect(f.Happened).To(Equal(tc.happened))
			g.Expect(f.Attack).To(Equal(tc.happened > 0))
			g.Expect(f.Detail).To(HavePrefix(tc.detail))
			for _, object := range tc.left {
				err := run.prover.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: object}, &corev1.ConfigMap{})
				g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the next run does not meet it")
			}
		})
	}
}

func TestACleanRunIsWithoutTheAttack(t *testing.T) {
	g := NewWithT(t)
	run := hostileWorld(t, func() bool { return true })
	s := attacking(t, run, scenario.Attack{Name: "many-objects", Namespace: "ns", Template: applied("m-$(index)")})
	g.Expect(run.armed.disarm()).To(Succeed())
	g.Expect(run.armed.result().Happened).To(BeZero())
	run.armed = nil
	_, err := run.drive(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	err = run.prover.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "m-0"}, &corev1.ConfigMap{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	g.Expect(s.Hostile()).To(Equal([]string{"ns"}))
	for _, nth := range []int{0, 1, 9} {
		_, err := run.prover.arm(t.Context(), s, scenario.Plan{Perturbation: scenario.Hostile, Target: scenario.Target{Nth: nth}}, nil)
		g.Expect(err).To(MatchError(ContainSubstring("looking for the attack")))
	}
}

func TestAnAttackSeesItsVictim(t *testing.T) {
	g := NewWithT(t)
	run := hostileWorld(t, func() bool { return true })
	owner, victim := refTo("before"), refTo("before")
	s := attacking(t, run, scenario.Attack{Name: "forged-owner-references", Object: &victim, Owner: &owner})
	_, err := run.drive(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(run.armed.disarm()).To(Succeed())
	var got corev1.ConfigMap
	g.Expect(run.prover.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "before"}, &got)).To(Succeed())
	g.Expect(got.OwnerReferences).To(ConsistOf(HaveField("Name", "before")))
	g.Expect(run.armed.result()).To(HaveField("Happened", 1))
}
