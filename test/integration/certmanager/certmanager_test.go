// SPDX-License-Identifier: Apache-2.0

package certmanager_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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

const webhookHost = "leasehold-webhook-service." + leasehold.Namespace + ".svc"

// serving is the name of the Certificate and of its Secret.
var serving = types.NamespacedName{Namespace: leasehold.Namespace, Name: "leasehold-serving-cert"}

// issuer issues the Certificate of the overlay, and injects its CA into the webhooks.
type issuer interface {
	// manifests returns the kustomize folder of the overlay with what the issuer needs.
	manifests(ctx context.Context) string
	// start starts what issues and injects at run time.
	start(ctx context.Context, plane *env.ControlPlane)
	// renew starts a renewal, which may end later.
	renew(ctx context.Context, c client.Client)
}

var _ = Describe("The overlay for cert-manager", func() {
	DescribeTable("serves admission with the issued certificate, and with a renewed one without a restart",
		func(ctx SpecContext, of issuer) {
			if err := env.CheckIsolation(); err != nil {
				Skip("only an isolated replica has the files of a Secret: " + err.Error())
			}
			lasting := context.WithoutCancel(ctx)
			plane, err := leasehold.StartControlPlane(lasting, config, env.Options{})
			if errors.Is(err, env.ErrExistingCluster) {
				Skip("the installation would replace the one that is there")
			}
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
			admin, err := client.New(plane.Config(), client.Options{Scheme: leasehold.Scheme()})
			Expect(err).NotTo(HaveOccurred())
			installation, err := plane.Install(lasting, env.InstallOptions{
				Manifests: of.manifests(ctx), Binary: operator.Manager(), Isolated: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) { Expect(installation.Stop(ctx)).To(Succeed()) })
			of.start(lasting, plane)
			first := issued(ctx, admin, nil)
			replica, err := installation.Start(lasting)
			Expect(err).NotTo(HaveOccurred())
			Eventually(replica.Ready).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed(),
				func() string { return replica.LogTail(20) })
			pid := replica.Pid()
			expectAdmission(ctx, admin, replica, first)

			of.renew(ctx, admin)
			expectAdmission(ctx, admin, replica, issued(ctx, admin, first))
			Expect(replica.Pid()).To(Equal(pid))
			Expect(admin.Get(ctx, types.NamespacedName{Namespace: leasehold.Namespace, Name: "leasehold-webhook-server-cert"},
				&corev1.Secret{})).To(MatchError(ContainSubstring("not found")), "the operator issues no certificate of its own")
		},
		Entry("of cert-manager", certManager{}, SpecTimeout(expect.Long)),
		Entry("of the harness, which stands in for it", standIn{}, SpecTimeout(expect.Long)),
	)
})

// issued waits for a certificate other than former, and returns its chain. Both issuers write the same Secret.
func issued(ctx context.Context, c client.Client, former []byte) []byte {
	GinkgoHelper()
	var secret corev1.Secret
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx, serving, &secret)).To(Succeed())
		g.Expect(secret.Data[corev1.TLSCertKey]).NotTo(BeEmpty())
		g.Expect(secret.Data[corev1.TLSCertKey]).NotTo(Equal(former))
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	Expect(secret.Type).To(Equal(corev1.SecretTypeTLS))
	Expect(secret.Annotations).To(HaveKeyWithValue("cert-manager.io/certificate-name", serving.Name))
	Expect(secret.Data).To(HaveLen(3))
	chain := secret.Data[corev1.TLSCertKey]
	_, err := tls.X509KeyPair(chain, secret.Data[corev1.TLSPrivateKeyKey])
	Expect(err).NotTo(HaveOccurred())
	leaf, err := cert.ParseCertsPEM(chain)
	Expect(err).NotTo(HaveOccurred())
	authority, err := cert.NewPoolFromBytes(secret.Data["ca.crt"])
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{webhookHost, webhookHost + ".cluster.local"} {
		_, err = leaf[0].Verify(x509.VerifyOptions{DNSName: name, Roots: authority})
		Expect(err).NotTo(HaveOccurred())
	}
	return chain
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
		g.Expect(c.Create(ctx, tenant, client.DryRunAll)).
			To(MatchError(ContainSubstring("the operator runs in this namespace")))
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
}

// splitChain returns the first certificate of a chain, and the others.
func splitChain(chain []byte) (leaf, rest []byte) {
	block, rest := pem.Decode(chain)
	return pem.EncodeToMemory(block), bytes.TrimSpace(rest)
}
