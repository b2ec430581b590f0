// SPDX-License-Identifier: Apache-2.0

package certmanager

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	issuer      = `{apiVersion: cert-manager.io/v1, kind: Issuer, metadata: {name: selfsigned, namespace: ns}, spec: {selfSigned: {}}}`
	certificate = `{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: serving, namespace: ns}, spec: {secretName: pair,
		dnsNames: [s.ns.svc], ipAddresses: [10.0.0.7], commonName: s,
			secretTemplate: {labels: {a: b}}, issuerRef: {name: selfsigned}}}`
	root        = `{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: root, namespace: ns}, spec: {secretName: root, isCA: true}}`
	injected    = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: v, annotations: {cert-manager.io/inject-ca-from: ns/serving}}, webhooks: [{name: a, clientConfig: {}}, {name: b, clientConfig: {service: {name: s}}}]}`
	conversion  = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: c, annotations: {cert-manager.io/inject-ca-from-secret: ns/pair}}, spec: {conversion: {webhook: {clientConfig: {}}}}}`
	unconverted = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d, annotations: {cert-manager.io/inject-ca-from: ns/serving}}, spec: {conversion: {strategy: None}}}`
	installed   = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: certificates.cert-manager.io}}`
)

// secretData decodes a key of a Secret.
func secretData(t *testing.T, secret *unstructured.Unstructured, key string) []byte {
	t.Helper()
	var s corev1.Secret
	NewWithT(t).Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(secret.Object, &s)).To(Succeed())
	NewWithT(t).Expect(s.Data).To(HaveKey(key))
	return s.Data[key]
}

func TestIssue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	given := objects(t, issuer, certificate, injected, conversion, unconverted, root)
	before := given[2].DeepCopy()
	out, notes, err := Issue(given, now)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).To(ConsistOf("cert-manager is not among the manifests: the harness issues Certificate ns/serving, ns/root"))
	g.Expect(given[2]).To(Equal(before), "what is shipped is not changed")
	g.Expect(out).To(HaveLen(5), "no resource of cert-manager, and a Secret of each Certificate")
	secret := out[3]
	g.Expect(secret.GetNamespace() + "/" + secret.GetName()).To(Equal("ns/pair"))
	g.Expect(secret.GetLabels()).To(Equal(map[string]string{"a": "b"}))

	bundle := secretData(t, secret, "ca.crt")
	encoded := base64.StdEncoding.EncodeToString(bundle)
	webhooks, _, err := unstructured.NestedSlice(out[0].Object, "webhooks")
	g.Expect(err).NotTo(HaveOccurred())
	for _, w := range webhooks {
		g.Expect(w).To(HaveKeyWithValue("clientConfig", HaveKeyWithValue("caBundle", encoded)))
	}
	g.Expect(webhooks[1]).To(HaveKeyWithValue("clientConfig", HaveKey("service")))
	got, _, err := unstructured.NestedString(out[1].Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(encoded))
	g.Expect(out[2].Object["spec"]).To(Equal(map[string]any{"conversion": map[string]any{"strategy": "None"}}))

	pair, err := tls.X509KeyPair(secretData(t, secret, "tls.crt"), secretData(t, secret, "tls.key"))
	g.Expect(err).NotTo(HaveOccurred())
	pool := x509.NewCertPool()
	g.Expect(pool.AppendCertsFromPEM(bundle)).To(BeTrue())
	for _, host := range []string{"s.ns.svc", "10.0.0.7"} {
		_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: now})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(pair.Leaf.Subject.CommonName).To(Equal("s"))

	pair, err = tls.X509KeyPair(secretData(t, out[4], "tls.crt"), secretData(t, out[4], "tls.key"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pair.Leaf.IsCA).To(BeTrue())
	g.Expect(pair.Leaf.KeyUsage & x509.KeyUsageCertSign).NotTo(BeZero())
}

func TestIssue_LeavesCertManagerToItself(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	given := objects(t, installed, issuer, certificate, injected)
	out, notes, err := Issue(given, time.Now())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(Equal(given))
	g.Expect(notes).To(BeEmpty())
}

func TestIssue_ReportsErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ object, says string }{
		"no Secret": {`{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: c, namespace: ns}, spec: {}}`,
			"issuing Certificate ns/c: spec.secretName is needed"},
		"a keystore": {`{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: c}, spec: {secretName: s, keystores: {jks: {}}}}`, "spec.keystores is not supported"},
		"no address": {`{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: c}, spec: {secretName: s, ipAddresses: [localhost]}}`, `"localhost" is no address`},
		"no names":   {`{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: c}, spec: {secretName: s, dnsNames: 7}}`, "issuing Certificate /c"},
		"another's":  {`{apiVersion: v1, kind: ConfigMap, metadata: {name: m, annotations: {cert-manager.io/inject-ca-from: ns/typo}}}`, `injecting the CA into ConfigMap m: the annotation cert-manager.io/inject-ca-from names "ns/typo"`},
		"more than that": {`{apiVersion: cert-manager.io/v1, kind: CertificateRequest, metadata: {name: r}}`,
			"CertificateRequest r needs cert-manager"},
	} {
		_, _, err := Issue(objects(t, certificate, tc.object), time.Now())
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.says)), name)
	}
}

func TestStartInjector_NeedsACertificate(t *testing.T) {
	t.Parallel()
	injector, err := StartInjector(t.Context(), nil, nil, objects(t, injected))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(injector).To(BeNil())
	injector.Stop()
}

func objects(t *testing.T, texts ...string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, text := range texts {
		o := &unstructured.Unstructured{}
		NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(text), &o.Object)).To(Succeed())
		out = append(out, o)
	}
	return out
}
