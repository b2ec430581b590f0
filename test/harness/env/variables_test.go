// SPDX-License-Identifier: Apache-2.0

package env

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

// operatorPod is the template of a Pod.
const operatorPod = `
metadata:
  labels: {app: x, tier: back}
  annotations: {example.org/team: 'the "A" team'}
spec:
  serviceAccountName: account
  containers:
  - name: operator
    resources: {limits: {cpu: 1500m, memory: 128Mi}, requests: {cpu: 10m}}
`

// fromYAML decodes a part of an object.
func fromYAML[T any](t *testing.T, text string) (part T) {
	t.Helper()
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(text), &part)).To(Succeed())
	return part
}

// variablesOf are those of the operator's container with this environment.
func variablesOf(t *testing.T, env string) containerVariables {
	t.Helper()
	template := fromYAML[corev1.PodTemplateSpec](t, operatorPod)
	container := template.Spec.Containers[0]
	container.Env = fromYAML[[]corev1.EnvVar](t, env)
	return containerVariables{template: template, container: container, namespace: "system"}
}

func TestContainerVariables(t *testing.T) {
	g := NewWithT(t)
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "settings"},
		Data:       map[string]string{"level": "7"}, BinaryData: map[string][]byte{"raw": []byte("bytes")},
	}
	login := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "login"},
		Data:       map[string][]byte{"password": []byte("open sesame")},
	}
	reader := fake.NewClientBuilder().WithObjects(settings, login).Build()
	pod := types.NamespacedName{Namespace: "system", Name: "operator-1"}
	for source, want := range map[string]string{
		"fieldRef: {fieldPath: metadata.name}":                              "operator-1",
		"fieldRef: {fieldPath: metadata.namespace}":                         "system",
		"fieldRef: {fieldPath: metadata.uid}":                               "42",
		`fieldRef: {fieldPath: "metadata.labels['tier']"}`:                  "back",
		`fieldRef: {fieldPath: "metadata.labels['absent']"}`:                "",
		`fieldRef: {fieldPath: "metadata.annotations['example.org/team']"}`: `the "A" team`,
		"fieldRef: {fieldPath: metadata.labels}":                            "app=\"x\"\ntier=\"back\"",
		"fieldRef: {fieldPath: spec.nodeName}":                              "harness",
		"fieldRef: {fieldPath: spec.serviceAccountName}":                    "account",
		"fieldRef: {fieldPath: status.podIP}":                               "127.0.0.1",
		"fieldRef: {fieldPath: status.podIPs}":                              "127.0.0.1",
		"fieldRef: {fieldPath: status.hostIP}":                              "127.0.0.1",
		"fieldRef: {fieldPath: status.hostIPs}":                             "127.0.0.1",
		"resourceFieldRef: {resource: limits.cpu}":                          "2",
		"resourceFieldRef: {resource: limits.cpu, divisor: 1m}":             "1500",
		"resourceFieldRef: {resource: limits.memory}":                       "134217728",
		"resourceFieldRef: {resource: limits.memory, divisor: 1Mi}":         "128",
		"resourceFieldRef: {resource: requests.cpu}":                        "1",
		"resourceFieldRef: {resource: requests.memory, divisor: 1Mi}":       "128",
		"secretKeyRef: {name: login, key: password}":                        "open sesame",
		"configMapKeyRef: {name: settings, key: level}":                     "7",
		"configMapKeyRef: {name: settings, key: raw}":                       "bytes",
	} {
		v := variablesOf(t, "[{name: X, valueFrom: {"+source+"}}]")
		g.Expect(v.values(t.Context(), reader, pod, "42")).To(Equal([]string{"X=" + want}), source)
		g.Expect(v.check(t.Context())).To(Succeed(), source)
	}
}

// A variable that cannot be provided is never dropped without a message.
func TestContainerVariablesThatCannotBeProvided(t *testing.T) {
	g := NewWithT(t)
	reader := fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "login"},
	}).Build()
	for source, tc := range map[string]struct {
		err   string
		early bool // check finds it
	}{
		"fieldRef: {fieldPath: status.phase}":            {"a replica has no field status.phase", true},
		"fieldRef: {fieldPath: 'metadata.labels[tier]'}": {"no field metadata.labels[tier]", true},
		"resourceFieldRef: {resource: limits.ephemeral-storage}": {
			"container operator has no limits.ephemeral-storage", true},
		"resourceFieldRef: {resource: cpu}": {"no resource cpu", true},
		"":                                  {"its source is", true},
		"secretKeyRef: {name: absent, key: password}": {"reading Secret system/absent", false},
		"secretKeyRef: {name: login, key: password}":  {"Secret login has no key password", false},
		"configMapKeyRef: {name: absent, key: level}": {"reading ConfigMap system/absent", false},
	} {
		v := variablesOf(t, "[{name: GIVEN, valueFrom: {"+source+"}}, {name: X, valueFrom: {"+source+"}}]")
		v.given = []string{"GIVEN=by the subject"}
		_, err := v.values(t.Context(), reader, types.NamespacedName{}, "")
		for when, err := range map[string]error{"at the start": err, "at the installation": v.check(t.Context())} {
			if when == "at the installation" && !tc.early {
				g.Expect(err).NotTo(HaveOccurred(), "%s: the cluster may get it later", source)
				continue
			}
			g.Expect(err).To(MatchError(And(ContainSubstring(tc.err), ContainSubstring("variable X:"),
				ContainSubstring("env: in the subject"), Not(ContainSubstring("GIVEN")))), "%s, %s", source, when)
		}
	}
}

func TestContainerVariables_OptionalAndReplaced(t *testing.T) {
	g := NewWithT(t)
	reader := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "settings"}, Data: map[string]string{"a": "1", "b": "2"},
	}).Build()
	v := variablesOf(t, `
- {name: ABSENT, valueFrom: {secretKeyRef: {name: absent, key: password, optional: true}}}
- {name: REPLACED, valueFrom: {fieldRef: {fieldPath: status.phase}}}
- {name: URL, value: http://$(S_a)/$$(S_a)/$(LATER)}
- {name: LATER, value: x}`)
	v.container.EnvFrom = fromYAML[[]corev1.EnvFromSource](t,
		"[{prefix: S_, configMapRef: {name: settings}}, {secretRef: {name: absent, optional: true}}]")
	v.given = []string{"REPLACED=y"}
	g.Expect(v.values(t.Context(), reader, types.NamespacedName{}, "")).
		To(Equal([]string{"S_a=1", "S_b=2", "URL=http://1/$(S_a)/$(LATER)", "LATER=x", "REPLACED=y"}))
	v.container.EnvFrom[1].SecretRef.Optional = nil
	g.Expect(v.values(t.Context(), reader, types.NamespacedName{}, "")).Error().
		To(MatchError(ContainSubstring("Secret system/absent")))
}

// An operator's arguments may name variables of its Pod.
func TestReplicaArgumentsReferToVariables(t *testing.T) {
	r := &Replica{options: ReplicaOptions{
		Name: "operator-1", Namespace: "system", Env: []string{"LEVEL=7"},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}},
		Args: func(ReplicaPorts) []string {
			return []string{"--ns=$(POD_NAMESPACE)", "--v=$(LEVEL)", "--other=$(UNKNOWN)"}
		},
	}}
	g := NewWithT(t)
	got, err := r.program(t.Context(), nil, []string{"POD_NAMESPACE=system"}, ReplicaPorts{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Args).To(Equal([]string{"--ns=system", "--v=7", "--other=$(UNKNOWN)"}))
}
