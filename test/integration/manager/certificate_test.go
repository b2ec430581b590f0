// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
)

const webhookHost = "leasehold-webhook-service." + operatorNamespace + ".svc"

// expectRotation removes the certificate of running replicas in each way, and waits for a new one.
func expectRotation(ctx context.Context, replicas ...*env.Replica) {
	GinkgoHelper()
	var served *x509.Certificate
	Eventually(func(g Gomega) { served = sharedCertificate(ctx, g, replicas) }).WithTimeout(expect.Medium).
		Should(Succeed())
	Expect(served.DNSNames).To(ConsistOf(webhookHost, webhookHost+".cluster.local"))
	for reason, patch := range map[string]string{
		"only the server's certificate is lost": `{"data":{"tls.crt":"","tls.key":""}}`,
		"the whole authority is lost":           `{"data":null}`,
	} {
		before := served
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: operatorNamespace, Name: "leasehold-webhook-server-cert"}}
		Expect(kube.Patch(ctx, secret, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		Eventually(func(g Gomega) {
			served = sharedCertificate(ctx, g, replicas)
			g.Expect(served.Equal(before)).To(BeFalse(), "a new one")
		}).WithTimeout(expect.Medium).Should(Succeed(), reason)
	}
}

// sharedCertificate connects to each replica as the API server does: by the Service's name, with
// the CA bundle of the webhook configurations. The replicas must serve the same certificate.
func sharedCertificate(ctx context.Context, g Gomega, replicas []*env.Replica) (served *x509.Certificate) {
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	g.Expect(kube.Get(ctx, client.ObjectKey{Name: "leasehold-validating-webhook-configuration"}, &validating)).
		To(Succeed())
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	g.Expect(kube.Get(ctx, client.ObjectKey{Name: "leasehold-mutating-webhook-configuration"}, &mutating)).To(Succeed())
	bundle := validating.Webhooks[0].ClientConfig.CABundle
	g.Expect(mutating.Webhooks[0].ClientConfig.CABundle).To(Equal(bundle))
	pool := x509.NewCertPool()
	g.Expect(pool.AppendCertsFromPEM(bundle)).To(BeTrue())
	for _, r := range replicas {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: webhookHost}}
		connection, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", r.Ports().Webhook))
		g.Expect(err).NotTo(HaveOccurred(), r.Name())
		certificate := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
		g.Expect(connection.Close()).To(Succeed())
		g.Expect(served == nil || served.Equal(certificate)).To(BeTrue(), "both serve the same certificate")
		served = certificate
	}
	return served
}
