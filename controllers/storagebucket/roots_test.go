package storagebucket

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"leasehold.dev/api/v1beta1"
)

// A StorageBucket that names a certificate trusts it and no public authority.
func TestCABundleReplacesSystemRoots(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	r := &Reconciler{Live: fake.NewClientBuilder().WithObjects(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "ca"},
			Data: map[string]string{"ca.crt": string(bundle)}}).Build()}
	b := bucket("b")
	b.Namespace = "team"
	b.Spec.CABundleRef = &v1beta1.ConfigMapKeyReference{Name: "ca", Key: "ca.crt"}
	got, problem, _, err := r.roots(t.Context(), b)
	if err != nil || problem != "" {
		t.Fatalf("problem %q, %v", problem, err)
	}
	want := x509.NewCertPool()
	want.AddCert(server.Certificate())
	if !got.Equal(want) {
		t.Error("the endpoint's certificate is judged by more than the bundle")
	}
}
