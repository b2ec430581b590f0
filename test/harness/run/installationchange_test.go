package run

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"leasehold.dev/test/harness/scenario"
)

// newInstallationChange is a stage with an object of the installation and a plan that changes it
// before the second step that acts.
func newInstallationChange(t *testing.T, c InstallationChange) (*testbed, *activeFault) {
	t.Helper()
	g := NewWithT(t)
	s := newElection(t)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	if c.Object != nil {
		s.client = clientfake.NewClientBuilder().WithRESTMapper(mapper).WithScheme(clientgoscheme.Scheme).Build()
	}
	s.dynamic = dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme,
		configMap(func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"a": "b"} }))
	s.subject.Changes = []InstallationChange{c}
	steps := []scenario.Step{{Apply: applied("a")}, {Wait: &scenario.Wait{}}, {Apply: applied("b")}}
	plan := Plan{Fault: c.Fault(),
		Target: Target{Method: changeTarget, Path: c.Name, Nth: 2}}
	a, err := s.inject(t.Context(), scenario.Scenario{Steps: steps}, plan, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a.beginStep(t.Context(), 0)).To(Succeed())
	g.Expect(a.beginStep(t.Context(), 1)).To(Succeed())
	return s, a
}

func TestInstallationChange_RestoresTheObject(t *testing.T) {
	for name, restores := range map[string]bool{"ByTheFault": false, "ByTheOperator": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, a := newInstallationChange(t, InstallationChange{
				Name: "less", Object: &scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "settings"},
				Patch: []PatchOperation{{Op: "remove", Path: "/data"},
					{Op: "replace", Path: "/metadata/resourceVersion", Value: "8"}},
			})
			stopped := s.useFakeClock()
			g.Expect(a.beginStep(t.Context(), 2)).To(Succeed())
			o, err := s.getSettings(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.Object).NotTo(HaveKey("data"))
			_, ongoing := a.effects()
			g.Expect(ongoing).To(BeTrue())
			by := "restored by the end of the fault"
			if restores {
				by = "restored by the operator"
				o.Object["data"] = map[string]any{"a": "b"}
				fake, ok := s.dynamic.(*dynamicfake.FakeDynamicClient)
				g.Expect(ok).To(BeTrue())
				g.Expect(fake.Tracker().Update(configMaps, o, "ns")).To(Succeed())
			}
			advance(t, stopped, changedFor)
			f := healAndGetFault(t, a)
			g.Expect(f.Detail).To(And(HavePrefix("configmaps ns/settings was changed by less"), ContainSubstring(by)))
			g.Expect(f.Denies).To(BeFalse())
			o, err = s.getSettings(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(o.Object).To(HaveKeyWithValue("data", map[string]any{"a": "b"}))
		})
	}
}

func TestInstallationChange_IsVoidWithoutEffect(t *testing.T) {
	g := NewWithT(t)
	_, a := newInstallationChange(t, InstallationChange{
		Name: "same", Object: &scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "settings"},
		Patch: []PatchOperation{{Op: "replace", Path: "/data/a", Value: "b"}},
	})
	g.Expect(a.beginStep(t.Context(), 2)).To(Succeed())
	g.Expect(healAndGetVoidReason(t, a)).To(Equal("same had no effect on configmaps ns/settings"))
}

func TestInstallationChange_RollsReplicasToAFlag(t *testing.T) {
	for name, tc := range map[string]struct {
		flag   string
		detail string
		flags  []string // of those that are started
		left   int      // of the first two
	}{
		"Ready":   {"--role=view", "2 replicas ran with --role=view", []string{"--role=view", "--role=view", "", ""}, 0},
		"Unready": {unreadyFlag, "1 replicas ran with " + unreadyFlag, []string{unreadyFlag}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, a := newInstallationChange(t, InstallationChange{Name: "other", Flag: tc.flag})
			s.timeouts.rollout = 100 * time.Millisecond
			s.renewInBackground(t, 0)
			s.auditLog = filepath.Join(t.TempDir(), "audit.log")
			g.Expect(os.WriteFile(s.auditLog, nil, 0o600)).To(Succeed())
			g.Expect(a.beginStep(t.Context(), 2)).To(Succeed())
			g.Expect(healAndGetFault(t, a).Detail).To(Equal(tc.detail))
			var flags []string
			for _, w := range s.processes[2:] {
				flags = append(flags, append(w.overrides.args, "")[0])
			}
			g.Expect(flags).To(Equal(tc.flags))
			g.Expect(s.running()).To(HaveLen(2))
			for _, r := range s.running() {
				g.Expect(r.build).To(BeEmpty())
			}
			old := 0
			for _, name := range processNames(s) {
				if name == "one" || name == "two" {
					old++
				}
			}
			g.Expect(old).To(Equal(tc.left))
		})
	}
}

func TestInstallationChange_RejectsUnknownChange(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t, http.StatusOK)
	s.subject.Changes = []InstallationChange{{Name: "other", Flag: "--x"}}
	for id, says := range map[string]string{
		"s:flag-change:CHANGE:none:1":  "the subject has none of that name",
		"s:rule-change:CHANGE:other:1": "it is a flag-change",
		"s:flag-change:CHANGE:other:9": "there are 0",
	} {
		plan, err := ParsePlan(id)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = s.inject(t.Context(), scenario.Scenario{}, plan, nil)
		g.Expect(err).To(MatchError(ContainSubstring(says)))
	}
}
