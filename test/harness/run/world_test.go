package run

import (
	"errors"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

const settings = "/api/v1/namespaces/ns/configmaps/settings"

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// moving is a stage whose API server has one object, and a plan for it.
func moving(t *testing.T, variant string, o ...runtime.Object) (*stage, *armed) {
	t.Helper()
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	s.dynamic = dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme, o...)
	plan := scenario.Plan{Scenario: "s", Perturbation: scenario.WorldMoves, Variant: variant, Target: scenario.Target{Method: http.MethodPatch, Path: settings, Nth: 1}}
	a, err := s.arm(t.Context(), scenario.Scenario{}, plan, nil)
	g.Expect(err).NotTo(HaveOccurred())
	return s, a
}

func configMap(change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "settings", ResourceVersion: "7", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
	}}
	for _, f := range change {
		f(cm)
	}
	return cm
}

func (s *stage) settings(t *testing.T) (*unstructured.Unstructured, error) {
	t.Helper()
	return s.dynamic.Resource(configMaps).Namespace("ns").Get(t.Context(), "settings", metav1.GetOptions{})
}

// versioned makes the store count versions, which the fake one does not.
func (s *stage) versioned(t *testing.T) {
	t.Helper()
	fake, ok := s.dynamic.(*dynamicfake.FakeDynamicClient)
	NewWithT(t).Expect(ok).To(BeTrue())
	seen := "7"
	fake.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		stored, err := fake.Tracker().Get(configMaps, "ns", "settings")
		o, ok := stored.(*unstructured.Unstructured)
		if err != nil || !ok {
			return true, nil, err
		}
		if len(o.GetLabels()) > 0 {
			seen += "1"
			o.SetLabels(nil)
			o.SetAnnotations(nil)
		}
		o.SetResourceVersion(seen)
		return true, o, fake.Tracker().Update(configMaps, o, "ns")
	})
}

func TestLabelsAreTakenOffBeforeTheAnswerComes(t *testing.T) {
	g := NewWithT(t)
	s, a := moving(t, scenario.StripLabels, configMap())
	s.versioned(t)
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK))
	o, err := s.settings(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.GetLabels()).To(BeEmpty())
	f := happened(t, a)
	g.Expect(f.Detail).To(Equal("labels and annotations of configmaps ns/settings were taken off"))
	g.Expect(f.Touched).To(Equal([]history.Key{{Resource: history.Resource{Resource: "configmaps"}, Namespace: "ns", Name: "settings"}}))
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK), "once only")
}

func TestWhatHasNoLabelsLosesNone(t *testing.T) {
	g := NewWithT(t)
	s, a := moving(t, scenario.StripLabels, configMap(func(cm *corev1.ConfigMap) { cm.Labels = nil }))
	s.versioned(t)
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK))
	g.Expect(void(t, a)).NotTo(BeEmpty())
}

func TestARefusedWriteMovesNothing(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusConflict)
	plan := scenario.Plan{Scenario: "s", Perturbation: scenario.WorldMoves, Variant: scenario.RemoveChild, Target: scenario.Target{Method: http.MethodPatch, Path: settings, Nth: 1}}
	a, err := s.arm(t.Context(), scenario.Scenario{}, plan, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusConflict))
	g.Expect(void(t, a)).NotTo(BeEmpty())
}

func TestAChildIsDeleted(t *testing.T) {
	g := NewWithT(t)
	s, a := moving(t, scenario.RemoveChild, configMap())
	g.Expect(s.patch(t, 1, settings)).To(Equal(http.StatusOK))
	_, err := s.settings(t)
	g.Expect(err).To(MatchError(ContainSubstring("not found")))
	g.Expect(a.disarm()).To(Succeed())
	g.Expect(a.result().Replica).To(Equal("two"))
}

func TestWhatCannotBeMovedIsNoFaultOfTheOperator(t *testing.T) {
	for name, tc := range map[string]struct {
		says  error
		fails bool
	}{
		"RefusedByTheAPIServer": {apierrors.NewForbidden(schema.GroupResource{}, "settings", errors.New("a webhook")), false},
		"OutOfReach":            {errors.New("connection refused"), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, a := moving(t, scenario.RemoveChild, configMap())
			fake, ok := s.dynamic.(*dynamicfake.FakeDynamicClient)
			g.Expect(ok).To(BeTrue())
			fake.PrependReactor("delete", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.says })
			g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK), "the operator is not to suffer")
			if tc.fails {
				g.Expect(a.disarm()).To(MatchError(And(ContainSubstring("moving the world at PATCH "+settings), ContainSubstring("refused"))))
			} else {
				g.Expect(a.disarm()).To(Succeed())
				g.Expect(a.result().Detail).To(ContainSubstring("a webhook"))
			}
			g.Expect(a.result().Happened).To(BeZero())
		})
	}
}

func TestARivalGoesOnForAWhile(t *testing.T) {
	g := NewWithT(t)
	s, a := moving(t, scenario.Rival, configMap())
	s.versioned(t)
	began := time.Now()
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK))
	g.Expect(a.resting(t.Context())).To(Succeed())
	g.Expect(time.Since(began)).To(BeNumerically(">=", rivalFor))
	f := happened(t, a)
	g.Expect(f.Detail).To(HaveSuffix("1 times"), "nobody put the labels on again")
}

// deleting is a scenario of one step.
func deleting(name string) scenario.Scenario {
	return scenario.Scenario{Name: "s", Steps: []scenario.Step{{Name: "end", Delete: &scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: name}}}}
}

func TestAForeignFinalizerHoldsUntilTheOperatorIsDone(t *testing.T) {
	const own = "example.com/own"
	now := metav1.Now()
	plan := scenario.Plan{Scenario: "s", Perturbation: scenario.WorldMoves, Variant: scenario.ForeignFinalizer, Target: scenario.Target{Method: scenario.StepTarget, Path: "end", Nth: 1}}
	for name, tc := range map[string]struct {
		change  func(*corev1.ConfigMap)
		happens int
	}{
		"OnItsWay": {func(cm *corev1.ConfigMap) { cm.DeletionTimestamp = &now }, 1},
		"Held":     {func(cm *corev1.ConfigMap) { cm.DeletionTimestamp, cm.Finalizers = &now, []string{own} }, 0},
		"Staying":  {func(*corev1.ConfigMap) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newStage(t, http.StatusOK)
			fake := clocktesting.NewFakeClock(now.Time)
			s.clock = fake
			s.dynamic = dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme, configMap(tc.change))
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			s.client = clientfake.NewClientBuilder().WithRESTMapper(mapper).Build()
			a, err := s.arm(t.Context(), deleting("settings"), plan, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(a.step(t.Context(), 0)).To(Succeed())
			o, err := s.settings(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.GetFinalizers()).To(ContainElement(foreign), "before the step")
			if tc.happens > 0 {
				g.Eventually(fake.HasWaiters, eventually).Should(BeTrue())
				fake.Step(heldFor)
				g.Eventually(func() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.happenings) }, eventually).Should(Equal(1))
			}
			err = a.disarm()
			o, getErr := s.settings(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(getErr).NotTo(HaveOccurred())
			g.Expect(o.GetFinalizers()).NotTo(ContainElement(foreign), "nothing is left behind")
			g.Expect(a.result().Happened).To(Equal(tc.happens))
		})
	}
	g := NewWithT(t)
	_, err := newStage(t, http.StatusOK).arm(t.Context(), scenario.Scenario{Name: "s", Steps: []scenario.Step{{Name: "end"}}}, plan, nil)
	g.Expect(err).To(MatchError(ContainSubstring("step 1 of scenario s deletes nothing")))
}

func TestObjectAt(t *testing.T) {
	p := &Prover{dynamic: dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme)}
	for path, want := range map[string]string{
		"/api/v1/namespaces/acme":                            "namespaces acme",
		"/api/v1/namespaces/ns/configmaps/settings":          "configmaps ns/settings",
		"/apis/example.com/v1/things/a/status":               "things.example.com a",
		"/apis/example.com/v1/namespaces/ns/things/a/status": "things.example.com ns/a",
	} {
		o, err := p.objectAt(path)
		if err != nil || o.key.String() != want {
			t.Errorf("objectAt(%q) = %q, %v, want %q", path, o.key, err, want)
		}
	}
	for _, path := range []string{"/api/v1/namespaces/ns/configmaps", "/healthz", "%"} {
		if o, err := p.objectAt(path); err == nil {
			t.Errorf("objectAt(%q) = %q, want an error", path, o.key)
		}
	}
}
