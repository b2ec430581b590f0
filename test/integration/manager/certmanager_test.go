// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
	"leasehold.dev/test/leasehold"
)

// The harness stands in for cert-manager: it issues the Certificate of the overlay, mounts its Secret,
// and injects its CA. A renewal changes the Secret and the CA, as cert-manager does with a self-signed issuer.
var _ = Describe("The overlay for cert-manager", func() {
	It("serves admission with the issued certificate, and with a renewed one without a restart", func(ctx SpecContext) {
		if err := env.CheckIsolation(); err != nil {
			Skip("only an isolated replica has the files of a Secret: " + err.Error())
		}
		lasting := context.WithoutCancel(ctx)
		plane, err := leasehold.StartControlPlane(lasting, "../../../config", env.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
		admin, err := client.New(plane.Config(), client.Options{Scheme: leasehold.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		installation, err := plane.Install(lasting, env.InstallOptions{
			Manifests: "../../../config/certmanager", Binary: operator.Manager(), Isolated: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(installation.Stop(ctx)).To(Succeed()) })
		replica, err := installation.Start(lasting)
		Expect(err).NotTo(HaveOccurred())
		Eventually(replica.Ready).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed(),
			func() string { return replica.LogTail(20) })

		key := types.NamespacedName{Namespace: operatorNamespace, Name: "leasehold-serving-cert"}
		var secret corev1.Secret
		Expect(admin.Get(ctx, key, &secret)).To(Succeed())
		expectAdmission(ctx, admin, replica, secret.Data[corev1.TLSCertKey])
		secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], err =
			cert.GenerateSelfSignedCertKey(webhookHost, nil, nil)
		Expect(err).NotTo(HaveOccurred())
		_, secret.Data["ca.crt"] = splitChain(secret.Data[corev1.TLSCertKey])
		Expect(admin.Update(ctx, &secret)).To(Succeed())
		injectRenewed(ctx, admin, secret.Data["ca.crt"])
		expectAdmission(ctx, admin, replica, secret.Data[corev1.TLSCertKey])
		Expect(admin.Get(ctx, types.NamespacedName{Namespace: operatorNamespace, Name: "leasehold-webhook-server-cert"},
			&secret)).To(MatchError(ContainSubstring("not found")), "the operator issues no certificate of its own")
	}, SpecTimeout(expect.Long))
})

// injectRenewed gives the webhooks another CA. The harness would replace it with the one that it issued, where the
// annotation requests that.
func injectRenewed(ctx context.Context, c client.Client, authority []byte) {
	GinkgoHelper()
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(c.Get(ctx, types.NamespacedName{Name: "leasehold-mutating-webhook-configuration"}, mutating)).To(Succeed())
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.CABundle = authority
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(c.Get(ctx, types.NamespacedName{Name: "leasehold-validating-webhook-configuration"}, validating)).To(Succeed())
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle = authority
	}
	for _, o := range []client.Object{mutating, validating} {
		o.SetAnnotations(nil)
		Expect(c.Update(ctx, o)).To(Succeed())
	}
}

// expectAdmission waits until the replica serves the certificate, with which its webhook refuses a Tenant.
func expectAdmission(ctx context.Context, c client.Client, r *env.Replica, chain []byte) {
	GinkgoHelper()
	leaf, _ := splitChain(chain)
	Eventually(func(g Gomega) {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		connection, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", r.Ports().Webhook))
		g.Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		served := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
		g.Expect(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: served.Raw})).To(Equal(leaf))
		tenant := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1beta1.TenantSpec{
			NamespacePrefix: "leasehold-", Namespaces: []v1beta1.NamespaceSuffix{"system"},
			Admins: []v1beta1.Subject{{Kind: "User", Name: "ann"}}}}
		g.Expect(c.Create(ctx, tenant, client.DryRunAll)).To(MatchError(ContainSubstring("the operator's own")))
	}).WithTimeout(expect.Medium).Should(Succeed())
}

// splitChain returns the first certificate of a chain, and the others.
func splitChain(chain []byte) (leaf, rest []byte) {
	block, rest := pem.Decode(chain)
	return pem.EncodeToMemory(block), bytes.TrimSpace(rest)
}
