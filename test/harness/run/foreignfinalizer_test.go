package run

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"leasehold.dev/test/harness/scenario"
)

// deletionScenario is a scenario of one step.
func deletionScenario(name string) scenario.Scenario {
	return scenario.Scenario{Name: "s",
		Steps: []scenario.Step{{Name: "end",
			Delete: &scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: name}}}}
}

func TestForeignFinalizer_OutlastsTheOperators(t *testing.T) {
	const own = "example.com/own"
	now := metav1.Now()
	plan := Plan{Scenario: "s", Fault: finalizerOfAnother.fault,
		Target: Target{Method: stepTarget, Path: "end", Nth: 1}}
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
			s := newTestbed(t, http.StatusOK)
			fake := clocktesting.NewFakeClock(now.Time)
			s.clock = fake
			s.dynamic = dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme, configMap(tc.change))
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			s.client = clientfake.NewClientBuilder().WithRESTMapper(mapper).Build()
			a, err := s.inject(t.Context(), deletionScenario("settings"), plan, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(a.beginStep(t.Context(), 0)).To(Succeed())
			o, err := s.getSettings(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.GetFinalizers()).To(ContainElement(foreignFinalizerName), "before the step")
			if tc.happens > 0 {
				g.Eventually(fake.HasWaiters, testTimeout).Should(BeTrue())
				fake.Step(heldFor)
				g.Eventually(func() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.occurrences) }, testTimeout).
					Should(Equal(1))
			}
			err = a.heal()
			o, getErr := s.getSettings(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(getErr).NotTo(HaveOccurred())
			g.Expect(o.GetFinalizers()).NotTo(ContainElement(foreignFinalizerName), "nothing is left behind")
			g.Expect(a.result().Happened).To(Equal(tc.happens))
		})
	}
	g := NewWithT(t)
	_, err := newTestbed(t, http.StatusOK).inject(t.Context(),
		scenario.Scenario{Name: "s", Steps: []scenario.Step{{Name: "end"}}}, plan, nil)
	g.Expect(err).To(MatchError(ContainSubstring("step 1 of scenario s deletes nothing")))
}
