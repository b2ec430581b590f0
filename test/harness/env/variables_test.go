// SPDX-License-Identifier: Apache-2.0

package env

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var operatorPod = corev1.PodTemplateSpec{
	ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{"app": "x", "tier": "back"},
		Annotations: map[string]string{"example.org/team": `the "A" team`},
	},
	Spec: corev1.PodSpec{ServiceAccountName: "account", Containers: []corev1.Container{{
		Name: "operator",
		Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
			},
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
		},
	}}},
}

func fromField(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func fromResource(name, divisor string) *corev1.EnvVarSource {
	ref := &corev1.ResourceFieldSelector{Resource: name}
	if divisor != "" {
		ref.Divisor = resource.MustParse(divisor)
	}
	return &corev1.EnvVarSource{ResourceFieldRef: ref}
}

func fromSecret(name string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "password", Optional: &optional,
	}}
}

func fromConfigMap(name, key string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key,
	}}
}

func variablesOf(env ...corev1.EnvVar) containerVariables {
	container := operatorPod.Spec.Containers[0]
	container.Env = env
	return containerVariables{template: operatorPod, container: container, namespace: "system"}
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
	for source, want := range map[*corev1.EnvVarSource]string{
		fromField("metadata.name"):                            "operator-1",
		fromField("metadata.namespace"):                       "system",
		fromField("metadata.uid"):                             "42",
		fromField("metadata.labels['tier']"):                  "back",
		fromField("metadata.labels['absent']"):                "",
		fromField("metadata.annotations['example.org/team']"): `the "A" team`,
		fromField("metadata.labels"):                          "app=\"x\"\ntier=\"back\"",
		fromField("spec.nodeName"):                            "harness",
		fromField("spec.serviceAccountName"):                  "account",
		fromField("status.podIP"):                             "127.0.0.1",
		fromField("status.podIPs"):                            "127.0.0.1",
		fromField("status.hostIP"):                            "127.0.0.1",
		fromField("status.hostIPs"):                           "127.0.0.1",
		fromResource("limits.cpu", ""):                        "2",
		fromResource("limits.cpu", "1m"):                      "1500",
		fromResource("limits.memory", ""):                     "134217728",
		fromResource("limits.memory", "1Mi"):                  "128",
		fromResource("requests.cpu", ""):                      "1",
		fromResource("requests.memory", "1Mi"):                "128",
		fromSecret("login", false):                            "open sesame",
		fromConfigMap("settings", "level"):                    "7",
		fromConfigMap("settings", "raw"):                      "bytes",
	} {
		v := variablesOf(corev1.EnvVar{Name: "X", ValueFrom: source})
		g.Expect(v.values(t.Context(), reader, pod, "42")).To(Equal([]string{"X=" + want}), source.String())
		g.Expect(v.check()).To(Succeed(), source.String())
	}
}

// A variable that cannot be provided is never dropped without a message.
func TestContainerVariablesThatCannotBeProvided(t *testing.T) {
	g := NewWithT(t)
	reader := fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "login"},
	}).Build()
	for name, tc := range map[string]struct {
		source *corev1.EnvVarSource
		err    string
		early  bool // check finds it
	}{
		"field":        {fromField("status.phase"), "a replica has no field status.phase", true},
		"label syntax": {fromField("metadata.labels[tier]"), "no field metadata.labels[tier]", true},
		"no limit": {fromResource("limits.ephemeral-storage", ""),
			"container operator has no limits.ephemeral-storage", true},
		"no such resource": {fromResource("cpu", ""), "no resource cpu", true},
		"no source":        {&corev1.EnvVarSource{}, "its source is", true},
		"no Secret":        {fromSecret("absent", false), "reading Secret system/absent", false},
		"no key":           {fromSecret("login", false), "Secret login has no key password", false},
		"no ConfigMap":     {fromConfigMap("absent", "level"), "reading ConfigMap system/absent", false},
	} {
		v := variablesOf(corev1.EnvVar{Name: "GIVEN", ValueFrom: tc.source}, corev1.EnvVar{Name: "X", ValueFrom: tc.source})
		v.given = []string{"GIVEN=by the subject"}
		_, err := v.values(t.Context(), reader, types.NamespacedName{}, "")
		for when, err := range map[string]error{"at the start": err, "at the installation": v.check()} {
			if when == "at the installation" && !tc.early {
				g.Expect(err).NotTo(HaveOccurred(), "%s: the cluster may get it later", name)
				continue
			}
			g.Expect(err).To(MatchError(And(ContainSubstring(tc.err), ContainSubstring("variable X:"),
				ContainSubstring("env: in the subject"), Not(ContainSubstring("GIVEN")))), "%s, %s", name, when)
		}
	}
}

func TestContainerVariables_OptionalAndReplaced(t *testing.T) {
	g := NewWithT(t)
	reader := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "settings"}, Data: map[string]string{"a": "1", "b": "2"},
	}).Build()
	v := variablesOf(
		corev1.EnvVar{Name: "ABSENT", ValueFrom: fromSecret("absent", true)},
		corev1.EnvVar{Name: "REPLACED", ValueFrom: fromField("status.phase")},
		corev1.EnvVar{Name: "URL", Value: "http://$(S_a)/$$(S_a)/$(LATER)"},
		corev1.EnvVar{Name: "LATER", Value: "x"},
	)
	v.container.EnvFrom = []corev1.EnvFromSource{
		{Prefix: "S_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "absent"},
			Optional: new(true)}},
	}
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
	g.Expect(got.args).To(Equal([]string{"--ns=system", "--v=7", "--other=$(UNKNOWN)"}))
}
