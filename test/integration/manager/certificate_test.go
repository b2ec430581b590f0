package manager_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/runners/servingcert"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/record"
)

// served is a replica whose webhook server takes its certificate from the Secret.
type served struct {
	*replica
	address string
}

func newServed(ctx context.Context, name, namespace string) *served {
	GinkgoHelper()
	source, err := servingcert.NewSource(secretIn(namespace))
	Expect(err).NotTo(HaveOccurred())
	port := freePort(ctx)
	r := newReplica(name, namespace, elected(namespace, patient), func(_ *replica, o *ctrl.Options) {
		o.WebhookServer = webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){
			func(c *tls.Config) { c.GetCertificate = source.GetCertificate },
		}})
	})
	Expect(source.SetupWithManager(r)).To(Succeed())
	Expect(servingcert.AddRotator(r, source, servingcert.RotatorOptions{
		Service: "hooks", Validating: namespace, Mutating: namespace, ControllerName: "rotator-" + r.user,
	})).To(Succeed())
	r.GetWebhookServer().Register("/answer", http.NotFoundHandler())
	return &served{replica: r, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
}

func secretIn(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: "hooks-cert"}
}

func freePort(ctx context.Context) int {
	GinkgoHelper()
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// handshake connects as the API server does: by the Service's name, with the CA bundle of the
// webhook configurations, which must be the same in both.
func (s *served) handshake(ctx context.Context) (*x509.Certificate, error) {
	GinkgoHelper()
	namespace := s.namespace()
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	Expect(kube.Get(ctx, client.ObjectKey{Name: namespace}, &validating)).To(Succeed())
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	Expect(kube.Get(ctx, client.ObjectKey{Name: namespace}, &mutating)).To(Succeed())
	bundle := validating.Webhooks[0].ClientConfig.CABundle
	if string(bundle) != string(mutating.Webhooks[0].ClientConfig.CABundle) {
		return nil, x509.UnknownAuthorityError{}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "hooks." + namespace + ".svc"}}
	connection, err := dialer.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

func (s *served) namespace() string { return s.user[len(s.name)+1:] }

// newHooks makes the empty Secret and the two configurations, as they ship.
func newHooks(ctx context.Context) (namespace string) {
	GinkgoHelper()
	namespace = newNamespace(ctx)
	key := secretIn(namespace)
	Expect(kube.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})).
		To(Succeed())
	config := admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "hooks"}}
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{"none.test"}, APIVersions: []string{"v1"},
			Resources: []string{"nothings"}},
	}}
	for _, o := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "validate.none.test", ClientConfig: config, Rules: rules,
				SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "mutate.none.test", ClientConfig: config, Rules: rules,
				SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}},
		},
	} {
		Expect(kube.Create(ctx, o)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(kube.Delete(ctx, o)).To(Succeed()) })
	}
	return namespace
}

var _ = Describe("The webhooks' certificate", func() {
	It("is issued by the leader, served by both replicas and rotated without a restart", func(ctx SpecContext) {
		namespace := newHooks(ctx)
		leader := newServed(ctx, "first", namespace)
		ready := leader.GetWebhookServer().StartedChecker()
		Expect(ready(nil)).To(MatchError(ContainSubstring("not been started")))
		leader.start(ctx)
		Eventually(leader.Elected()).Should(BeClosed())
		standby := newServed(ctx, "second", namespace)
		standby.start(ctx)

		certificates := func(g Gomega) *x509.Certificate {
			one, err := leader.handshake(ctx)
			g.Expect(err).NotTo(HaveOccurred(), "leader")
			two, err := standby.handshake(ctx)
			g.Expect(err).NotTo(HaveOccurred(), "standby")
			g.Expect(two.Equal(one)).To(BeTrue(), "both serve the same certificate")
			return one
		}
		var first *x509.Certificate
		Eventually(func(g Gomega) { first = certificates(g) }).WithTimeout(expect.Medium).Should(Succeed())
		Expect(ready(nil)).To(Succeed())
		Expect(standby.GetWebhookServer().StartedChecker()(nil)).To(Succeed())
		Expect(first.DNSNames).To(ConsistOf("hooks."+namespace+".svc", "hooks."+namespace+".svc.cluster.local"))

		for reason, patch := range map[string]string{
			"only the server's certificate is lost": `{"data":{"tls.crt":"","tls.key":""}}`,
			"the whole authority is lost":           `{"data":null}`,
		} {
			before := first
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretIn(namespace).Name}}
			Expect(kube.Patch(ctx, secret, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
			Eventually(func(g Gomega) {
				first = certificates(g)
				g.Expect(first.Equal(before)).To(BeFalse(), "a new one")
			}).WithTimeout(expect.Medium).Should(Succeed(), reason)
		}
		Expect(leader.done).NotTo(BeClosed())
		Expect(standby.Elected()).NotTo(BeClosed())
		expectNoWrites(standby.user)
		standby.stop()
		leader.stop()
	}, SpecTimeout(expect.Long))

	It("fails the handshake and readiness while there is none", func(ctx SpecContext) {
		namespace := newHooks(ctx)
		// Another replica holds the Lease, so no replica fills the Secret.
		holder := newReplica("holder", namespace, elected(namespace, patient)).start(ctx)
		Eventually(holder.Elected()).Should(BeClosed())
		waiting := newServed(ctx, "waiting", namespace)
		waiting.start(ctx)
		ready := waiting.GetWebhookServer().StartedChecker()
		Eventually(func() error { return ready(nil) }).Should(MatchError(ContainSubstring("not reachable")))
		Consistently(func() error { return ready(nil) }).Should(MatchError(ContainSubstring("not reachable")))

		holder.stop()
		Eventually(waiting.Elected()).Should(BeClosed())
		Eventually(func() error { return ready(nil) }).WithTimeout(expect.Medium).Should(Succeed(),
			"it was alive and waited for the lead")
	}, SpecTimeout(expect.Long))

	It("stops the leader with a clear error when the Secret does not exist", func(ctx SpecContext) {
		namespace := newHooks(ctx)
		Expect(kube.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: secretIn(namespace).Name,
		}})).To(Succeed())
		r := newServed(ctx, "alone", namespace)
		r.start(ctx)
		Eventually(r.done).WithTimeout(expect.Medium).Should(BeClosed())
		Expect(r.err).To(MatchError(And(ContainSubstring("acquiring secret"), ContainSubstring("not found"))))
	}, SpecTimeout(expect.Long))
})

func expectNoWrites(user string) {
	GinkgoHelper()
	if shared.AuditLog == "" {
		AddReportEntry("not judged: the audit log of this cluster cannot be read", user)
		return
	}
	events, err := record.ReadAuditLog(shared.AuditLog)
	Expect(err).NotTo(HaveOccurred())
	Expect(record.Select(events, record.User(user))).NotTo(BeEmpty(), "the log must know the user")
	Expect(record.Writes(events, user)).To(BeEmpty())
}
