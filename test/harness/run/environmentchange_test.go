package run

import (
	"errors"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

const settings = "/api/v1/namespaces/ns/configmaps/settings"

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// newEnvironmentChange is a stage whose API server has one object, and a plan for it.
func newEnvironmentChange(t *testing.T, name scenario.FaultName, o ...runtime.Object) (*testbed, *activeFault) {
	t.Helper()
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	s.dynamic = dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme, o...)
	plan := Plan{Scenario: "s", Fault: name,
		Target: Target{Method: http.MethodPatch, Path: settings, Nth: 1}}
	a, err := s.inject(t.Context(), scenario.Scenario{}, plan, nil)
	g.Expect(err).NotTo(HaveOccurred())
	return s, a
}

func configMap(change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "settings", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
		Annotations: map[string]string{"c": "d"},
	}}
	for _, f := range change {
		f(cm)
	}
	return cm
}

func (s *testbed) getSettings(t *testing.T) (*unstructured.Unstructured, error) {
	t.Helper()
	return s.dynamic.Resource(configMaps).Namespace("ns").Get(t.Context(), "settings", metav1.GetOptions{})
}

// useVersionedPatches makes the store count versions, which the fake one does not.
func (s *testbed) useVersionedPatches(t *testing.T) {
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

func TestEnvironmentChange_StripsLabelsBeforeTheAnswer(t *testing.T) {
	g := NewWithT(t)
	s, a := newEnvironmentChange(t, metadataStripped.fault, configMap())
	s.useVersionedPatches(t)
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK))
	o, err := s.getSettings(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.GetLabels()).To(BeEmpty())
	f := healAndGetFault(t, a)
	g.Expect(f.Detail).To(Equal("labels and annotations of configmaps ns/settings were taken off"))
	g.Expect(f.Touched).To(Equal([]history.Key{{Resource: history.Resource{Resource: "configmaps"}, Namespace: "ns",
		Name: "settings"}}))
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK), "once only")
}

func TestEnvironmentChange_IsVoidWithoutLabels(t *testing.T) {
	g := NewWithT(t)
	s, a := newEnvironmentChange(t, metadataStripped.fault, configMap(func(cm *corev1.ConfigMap) { cm.Labels = nil }))
	s.useVersionedPatches(t)
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK))
	g.Expect(healAndGetVoidReason(t, a)).NotTo(BeEmpty())
}

func TestEnvironmentChange_IgnoresRefusedWrites(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusConflict)
	plan := Plan{Scenario: "s", Fault: objectDeleted.fault,
		Target: Target{Method: http.MethodPatch, Path: settings, Nth: 1}}
	a, err := s.inject(t.Context(), scenario.Scenario{}, plan, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusConflict))
	g.Expect(healAndGetVoidReason(t, a)).NotTo(BeEmpty())
}

func TestEnvironmentChange_DeletesChild(t *testing.T) {
	g := NewWithT(t)
	s, a := newEnvironmentChange(t, objectDeleted.fault, configMap())
	g.Expect(s.patch(t, 1, settings)).To(Equal(http.StatusOK))
	_, err := s.getSettings(t)
	g.Expect(err).To(MatchError(ContainSubstring("not found")))
	g.Expect(a.heal()).To(Succeed())
	g.Expect(a.result().Replica).To(Equal("two"))
}

func TestEnvironmentChange_IsVoidIfRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		says  error
		fails bool
	}{
		"RefusedByTheAPIServer": {apierrors.NewForbidden(schema.GroupResource{}, "settings", errors.New("a webhook")), false},
		"OutOfReach":            {errors.New("connection refused"), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, a := newEnvironmentChange(t, objectDeleted.fault, configMap())
			fake, ok := s.dynamic.(*dynamicfake.FakeDynamicClient)
			g.Expect(ok).To(BeTrue())
			fake.PrependReactor("delete", "configmaps",
				func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.says })
			g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK), "the operator is not to suffer")
			if tc.fails {
				g.Expect(a.heal()).To(MatchError(And(ContainSubstring("changing the object of PATCH "+settings),
					ContainSubstring("refused"))))
			} else {
				g.Expect(a.heal()).To(Succeed())
				g.Expect(a.result().Detail).To(ContainSubstring("a webhook"))
			}
			g.Expect(a.result().Happened).To(BeZero())
		})
	}
}

func TestEnvironmentChange_RivalWritesForAWhile(t *testing.T) {
	g := NewWithT(t)
	s, a := newEnvironmentChange(t, metadataContested.fault, configMap())
	s.useVersionedPatches(t)
	began := time.Now()
	g.Expect(s.patch(t, 0, settings)).To(Equal(http.StatusOK))
	g.Expect(a.waitForOngoing(t.Context())).Error().NotTo(HaveOccurred())
	g.Expect(time.Since(began)).To(BeNumerically(">=", rivalFor))
	f := healAndGetFault(t, a)
	g.Expect(f.Detail).To(HaveSuffix("1 times"), "the labels were not restored")
}
