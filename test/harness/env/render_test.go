// SPDX-License-Identifier: Apache-2.0

package env

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
)

// manifests is what a small operator might ship, in an order that cannot be applied.
const manifests = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: GROUP-policy}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [GROUP], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  validations: [{expression: "true"}]
---
apiVersion: GROUP/v1
kind: Thing
metadata: {name: one, namespace: GROUP-ns}
spec: {size: 3}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: GROUP-ns}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: GROUP-ns}
`

func TestRenderedObjectsCanBeApplied(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	group := unique("g") + "-example"
	dir := t.TempDir()
	// Group names need a dot; namespaces must not have one.
	text := strings.ReplaceAll(strings.ReplaceAll(manifests, "GROUP-ns", group), "GROUP", group+".org")
	g.Expect(os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: [all.yaml]\n"), 0o600)).
		To(Succeed())

	objs, _, err := InstallOptions{Manifests: dir}.Render(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	var kinds []string
	for _, obj := range objs {
		kinds = append(kinds, obj.GetKind())
	}
	g.Expect(kinds).To(HaveLen(5))
	g.Expect(kinds[:2]).To(Equal([]string{"Namespace", "CustomResourceDefinition"}))
	g.Expect(kinds[2:4]).To(ConsistOf("ConfigMap", "Thing"))
	g.Expect(kinds[4]).To(Equal("ValidatingAdmissionPolicy"))

	before := make([]*unstructured.Unstructured, len(objs))
	for i, obj := range objs {
		before[i] = obj.DeepCopy()
	}
	for range 2 { // applying again changes nothing and is no error
		g.Expect(shared.Apply(t.Context(), objs...)).To(Succeed())
	}
	g.Expect(objs).To(Equal(before), "the objects are the caller's")
	out, err := shared.Kubectl(t.Context(), "-n", group, "get", "things."+group+".org", "one", "-o",
		"jsonpath={.spec.size}")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal("3"))
}

func object(t *testing.T, o runtime.Object) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &unstructured.Unstructured{Object: fields}
}

func service(key types.NamespacedName) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "x"}, Ports: []corev1.ServicePort{{Port: 443}}},
	}
}

// refusing is a webhook for ConfigMaps in ns that is called through the Service key.
func refusing(t *testing.T, key types.NamespacedName, name string, ca []byte) *unstructured.Unstructured {
	t.Helper()
	return objects(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: configmaps.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
  clientConfig: {service: {namespace: %[2]s, name: %[3]s}, caBundle: %[4]q}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
`, name, key.Namespace, key.Name, base64.StdEncoding.EncodeToString(ca)))[0]
}

// startRefusing serves a webhook that refuses everything, with a certificate for these hosts.
func startRefusing(t *testing.T, host string, more ...string) (ca []byte, _ *servingPod) {
	t.Helper()
	g := NewWithT(t)
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, more)
	g.Expect(err).NotTo(HaveOccurred())
	pair, err := tls.X509KeyPair(certificate, key)
	g.Expect(err).NotTo(HaveOccurred())
	refusal := &metav1.Status{Status: metav1.StatusFailure, Message: "refused by the test"}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request to convert has the same envelope.
		var review struct {
			metav1.TypeMeta `json:",inline"`
			Request         struct{ UID types.UID } `json:"request"`
			Response        any                     `json:"response"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: refusal}
		if review.Kind == "ConversionReview" {
			review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: *refusal}
		}
		_ = json.NewEncoder(w).Encode(review) // an error shows in the API server's answer
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return certificate, &servingPod{at: server.Listener.Addr().String()}
}
