package run

import (
	"errors"
	"net/http"
	"strings"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/history"
)

// pod reads the Pod of replica one.
func (s *testbed) pod() (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: lease.Namespace, Name: "one"}, pod)
}

// podCases are false signs that the leader's process has ended.
var podCases = map[string]faultCase{
	"false-evidence-deleted": {plan: "false-evidence-deleted", replica: "one",
		evidence: "^its Pod was deleted by force, at PATCH /things/thing-1, and replica two led ", cause: func(s *testbed) {
			s.sendTarget()
			s.Eventually(func() bool { _, err := s.pod(); return apierrors.IsNotFound(err) }).Should(BeTrue())
			s.Expect(s.processes[0].kills()).To(BeZero(), "the process runs until another one leads")
			before := time.Now()
			s.lead(1)
			s.Eventually(func() int {
				s.patch(1, thingPath) // the next leader writes at once
				return s.processes[0].kills()
			}).Should(BeNumerically(">", 0))
			s.Expect(s.fault.waitForOngoing(s.t.Context())).Error().NotTo(HaveOccurred())
			s.Expect(s.lifetime("one").Ended).To(BeTemporally(">", before.Add(time.Second)),
				"its end does not excuse the takeover")
		}, also: func(s *testbed, _ history.FaultRecord) {
			s.Expect(s.names()).To(Equal([]string{"two", "three"}), "its token died with the Pod")
			s.Expect(s.lifetime("one").Killed).To(BeTrue())
		}},
	"false-evidence-replaced": {plan: "false-evidence-replaced", replica: "one",
		evidence: "and another of its name failed", cause: func(s *testbed) {
			s.sendTarget()
			s.Eventually(s.pod).Should(And(HaveField("Status.Phase", corev1.PodFailed), HaveField("UID",
				Not(BeEquivalentTo("one-uid")))))
			s.lead(1)
		}, also: func(s *testbed, _ history.FaultRecord) {
			s.Expect(s.names()).To(Equal([]string{"two", "three"}))
			_, err := s.pod()
			s.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it is there for one run")
		}},
}

const settings = "/api/v1/namespaces/ns/configmaps/settings"

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{"a": "b"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
		Name:            "settings",
		ResourceVersion: "7", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}}
}

func (s *testbed) fakeDynamic() *dynamicfake.FakeDynamicClient {
	fake, ok := s.dynamic.(*dynamicfake.FakeDynamicClient)
	s.Expect(ok).To(BeTrue())
	return fake
}

// settings reads the object.
func (s *testbed) settings() *unstructured.Unstructured {
	o, err := s.dynamic.Resource(configMaps).Namespace("ns").Get(s.t.Context(), "settings", metav1.GetOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	return o
}

// stored reads the object past the reactors, for use in one.
func (s *testbed) stored() *unstructured.Unstructured {
	stored, err := s.fakeDynamic().Tracker().Get(configMaps, "ns", "settings")
	s.Expect(err).NotTo(HaveOccurred())
	o, ok := stored.(*unstructured.Unstructured)
	s.Expect(ok).To(BeTrue())
	return o
}

// changeSettings replaces the object by a changed one.
func changeSettings(change func(*corev1.ConfigMap)) func(s *testbed) {
	return func(s *testbed) {
		cm := configMap()
		change(cm)
		s.dynamic = dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme, cm)
	}
}

// stripped lets the store count the versions, which the fake one does not, as patches strip the object.
func stripped(s *testbed) {
	seen := "7"
	s.fakeDynamic().PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		o := s.stored()
		if len(o.GetLabels()) > 0 {
			seen += "1"
			o.SetLabels(nil)
			o.SetAnnotations(nil)
		}
		o.SetResourceVersion(seen)
		return true, o, s.fakeDynamic().Tracker().Update(configMaps, o, "ns")
	})
}

// refuseDeletion makes the API server answer a deletion with an error.
func refuseDeletion(err error) func(s *testbed) {
	return func(s *testbed) {
		s.fakeDynamic().PrependReactor("delete", "configmaps",
			func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	}
}

func writeSettings(s *testbed) { s.Expect(s.patch(0, settings)).To(Equal(http.StatusOK)) }

// withFinalizer begins the deletion, at which the fault adds its finalizer.
func withFinalizer(s *testbed) {
	s.step(0)
	s.Expect(s.settings().GetFinalizers()).To(ContainElement(foreignFinalizerName), "before the step")
}

func withoutFinalizer(s *testbed, _ history.FaultRecord) {
	s.Expect(s.settings().GetFinalizers()).NotTo(ContainElement(foreignFinalizerName), "nothing is left behind")
}

// changeCases are changes of an object that the operator has written or a user deletes.
var changeCases = map[string]faultCase{
	"metadata-stripped": {plan: "metadata-stripped:PATCH:" + settings + ":1", replica: "one",
		evidence: "^labels and annotations of configmaps ns/settings were taken off$", before: stripped,
		cause: func(s *testbed) {
			writeSettings(s)
			s.Expect(s.settings().GetLabels()).To(BeEmpty(), "before the answer")
			writeSettings(s) // the fault happens once
		}, also: func(s *testbed, f history.FaultRecord) {
			s.Expect(f.Touched).To(Equal([]history.Key{{Resource: history.Resource{Resource: "configmaps"}, Namespace: "ns",
				Name: "settings"}}))
		}},
	"metadata-stripped/bare": {plan: "metadata-stripped:PATCH:" + settings + ":1", void: "no PATCH",
		before: func(s *testbed) {
			changeSettings(func(cm *corev1.ConfigMap) { cm.Labels = nil })(s)
			stripped(s)
		}, cause: writeSettings},
	"object-deleted": {plan: "object-deleted:PATCH:" + settings + ":1", replica: "two",
		evidence: "^configmaps ns/settings was deleted$", cause: func(s *testbed) {
			s.Expect(s.patch(1, settings)).To(Equal(http.StatusOK))
			_, err := s.fakeDynamic().Tracker().Get(configMaps, "ns", "settings")
			s.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		}},
	"object-deleted/write refused": {plan: "object-deleted:PATCH:" + settings + ":1", void: "no PATCH",
		before: func(s *testbed) { s.code.Store(http.StatusConflict) },
		cause:  func(s *testbed) { s.Expect(s.patch(0, settings)).To(Equal(http.StatusConflict)) },
		also:   func(s *testbed, _ history.FaultRecord) { s.settings() }},
	"object-deleted/deletion refused": {plan: "object-deleted:PATCH:" + settings + ":1", void: "a webhook",
		before: refuseDeletion(apierrors.NewForbidden(schema.GroupResource{}, "settings", errors.New("a webhook"))),
		cause:  writeSettings},
	"object-deleted/out of reach": {plan: "object-deleted:PATCH:" + settings + ":1",
		err:    "changing the object of PATCH " + settings + ": connection refused",
		before: refuseDeletion(errors.New("connection refused")), cause: writeSettings},
	"metadata-contested": {plan: "metadata-contested:PATCH:" + settings + ":1",
		evidence: "1 times$", before: stripped, cause: writeSettings, also: func(s *testbed, f history.FaultRecord) {
			s.Expect(f.Ended.Sub(f.Began)).To(BeNumerically(">=", rivalFor))
		}},
	"metadata-contested/bare": {plan: "metadata-contested:PATCH:" + settings + ":1", void: "no PATCH",
		before: func(s *testbed) {
			changeSettings(func(cm *corev1.ConfigMap) { cm.Labels = nil })(s)
			stripped(s)
		}, cause: writeSettings},
	"foreign-finalizer": {plan: "foreign-finalizer:STEP:end:1",
		evidence: "^a foreign finalizer held configmaps ns/settings for 2s$",
		before: func(s *testbed) {
			s.stopClock()
			changeSettings(func(cm *corev1.ConfigMap) { cm.DeletionTimestamp = new(metav1.Now()) })(s)
		}, cause: func(s *testbed) {
			withFinalizer(s)
			s.advance(heldFor)
			s.Eventually(s.occurrences).Should(Equal(1))
		}, also: withoutFinalizer},
	"foreign-finalizer/own stays": {plan: "foreign-finalizer:STEP:end:1", void: "no STEP",
		before: changeSettings(func(cm *corev1.ConfigMap) {
			cm.DeletionTimestamp, cm.Finalizers = new(metav1.Now()), []string{"example.com/own"}
		}), cause: withFinalizer, also: withoutFinalizer},
	"foreign-finalizer/no deletion": {plan: "foreign-finalizer:STEP:end:1", void: "no STEP", cause: withFinalizer,
		also: withoutFinalizer},
}

// changing lets the installation be changed before the second step that acts.
func changing(c InstallationChange) func(s *testbed) {
	return func(s *testbed) {
		s.subject.Changes = []InstallationChange{c}
		if c.Flag != "" {
			s.timeouts.rollout = 100 * time.Millisecond
			s.renewInBackground()
			return
		}
		s.stopClock()
	}
}

// flagged expects the flags of the replicas that were started, and those replicas that are left.
func flagged(flags, left []string) func(s *testbed, f history.FaultRecord) {
	return func(s *testbed, _ history.FaultRecord) {
		var started []string
		for _, w := range s.processes[2:] {
			started = append(started, strings.Join(w.overrides.args, " "))
		}
		s.Expect(started).To(Equal(flags))
		s.Expect(s.names()).To(Equal(left))
		for _, r := range s.running() {
			s.Expect(r.build).To(BeEmpty())
		}
	}
}

// withoutRight removes a permission from the object, which represents a role.
func withoutRight(s *testbed) {
	changing(InstallationChange{Name: "less", Object: new(refTo("settings")), Without: &Right{}})(s)
}

func beginChange(s *testbed) { s.step(2) }

// installationCases are changes of the operator's installation.
var installationCases = map[string]faultCase{
	"rule-change": {plan: "rule-change:CHANGE:less:2",
		evidence: "^configmaps ns/settings was changed by less for 3s; 0 requests of the operator were forbidden meanwhile$",
		before: func(s *testbed) {
			withoutRight(s)
			s.fakeDynamic().PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				o := s.stored()
				delete(o.Object, "data")
				o.SetResourceVersion("8")
				return true, o, s.fakeDynamic().Tracker().Update(configMaps, o, "ns")
			})
		}, cause: func(s *testbed) {
			s.step(0)
			s.step(1)
			s.Expect(s.settings().Object).To(HaveKey("data"))
			beginChange(s)
			s.Expect(s.settings().Object).NotTo(HaveKey("data"))
			s.Expect(s.ongoing()).To(Equal(1))
			s.advance(changedFor)
		},
		also: func(s *testbed, f history.FaultRecord) {
			s.Expect(f.Denies).To(BeTrue())
			s.Expect(s.settings().Object).To(HaveKeyWithValue("data", map[string]any{"a": "b"}))
		}},
	"rule-change/same": {plan: "rule-change:CHANGE:less:2", void: "less had no effect on configmaps ns/settings",
		before: withoutRight, cause: beginChange},
	"flag-change/none": {plan: "flag-change:CHANGE:other:2", void: "no CHANGE",
		before: changing(InstallationChange{Name: "other", Flag: "--role=view"})},
	"flag-change": {plan: "flag-change:CHANGE:other:2", evidence: "^2 replicas ran with --role=view$",
		cause:  beginChange,
		before: changing(InstallationChange{Name: "other", Flag: "--role=view"}),
		also:   flagged([]string{"--role=view", "--role=view", "", ""}, []string{"five", "six"})},
	// A replica that is not ready has run with the flag, and ends the roll-out.
	"flag-change/unready": {plan: "flag-change:CHANGE:other:2", evidence: "^1 replicas ran with " + unreadyFlag + "$",
		before: changing(InstallationChange{Name: "other", Flag: unreadyFlag}), cause: beginChange,
		also: flagged([]string{unreadyFlag}, []string{"one", "two"})},
}
