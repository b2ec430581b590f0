package manager_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/record"
)

const (
	operatorNamespace = "leasehold-system"
	// With nothing built before, the operator takes minutes on a small machine.
	buildTimeout = 10 * time.Minute
)

// Serial: there is one installation in a cluster, and the process that started
// the control plane runs it.
var _ = Describe("The operator as it ships", Serial, Ordered, func() {
	var (
		binary          string
		installation    *env.Installation
		leader, standby *env.Replica
	)

	BeforeAll(func(ctx SpecContext) {
		if shared.AuditLog == "" {
			Skip("not on an existing cluster: the installation would replace the one that is there")
		}
		var err error
		binary, err = gexec.Build("leasehold.dev")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(gexec.CleanupBuildArtifacts)
		installation, err = controlPlane.Install(ctx, env.Subject{
			Manifests: "../../../config/default", Binary: binary, Args: arguments,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(installation.Stop(ctx)).To(Succeed()) })
		leader, err = installation.Start(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(leader.Ready).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
		standby, err = installation.Start(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(standby.Ready).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	}, NodeTimeout(buildTimeout))

	It("answers each check by its name, on the leader and on the standby", func(ctx SpecContext) {
		for _, r := range []*env.Replica{leader, standby} {
			for _, check := range []string{"readyz", "readyz/caches", "readyz/webhook", "healthz", "healthz/ping", "healthz/workers"} {
				Expect(status(ctx, fmt.Sprintf("http://127.0.0.1:%d/%s", r.Ports().Probe, check))).To(Equal(http.StatusOK), r.Name()+" "+check)
			}
			Expect(status(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz/no-such-check", r.Ports().Probe))).To(Equal(http.StatusNotFound))
		}
	}, SpecTimeout(expect.Long))

	It("leads under the Pod's name", func(ctx SpecContext) {
		Expect(holder(ctx)).To(HavePrefix(leader.Name() + "_"))
	}, SpecTimeout(expect.Long))

	It("shows its metrics, on leader and standby, only to those who may read them", func(ctx SpecContext) {
		stranger, _ := tokenOfNewAccount(ctx)
		reader, account := tokenOfNewAccount(ctx)
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "leasehold-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
		}
		Expect(kube.Create(ctx, binding)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(kube.Delete(ctx, binding)).To(Succeed()) })
		// Ask the authorizer itself first: a replica would remember an early refusal.
		Eventually(func(g Gomega) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:                  "system:serviceaccount:" + account.Namespace + ":" + account.Name,
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
			}}
			g.Expect(kube.Create(ctx, review)).To(Succeed())
			g.Expect(review.Status.Allowed).To(BeTrue())
		}).WithContext(ctx).Should(Succeed())
		for _, r := range []*env.Replica{leader, standby} {
			url := fmt.Sprintf("https://127.0.0.1:%d/metrics", r.Ports().Metrics)
			// Readiness does not wait for it: it makes itself a key first.
			Eventually(status).WithContext(ctx).WithArguments(url).Should(Equal(http.StatusUnauthorized))
			Expect(statusWith(ctx, url, stranger)).To(Equal(http.StatusForbidden))
			Expect(statusWith(ctx, url, reader)).To(Equal(http.StatusOK))
		}
	}, SpecTimeout(expect.Long))

	It("has all the rights it needs, and its standby wrote nothing", func() {
		for _, r := range []*env.Replica{leader, standby} {
			said, err := os.ReadFile(r.LogPath())
			Expect(err).NotTo(HaveOccurred())
			Expect(string(said)).To(ContainSubstring("Serving webhook server"))
			Expect(string(said)).NotTo(ContainSubstring("forbidden: User"), r.Name())
		}
		events, err := record.ReadAuditLog(shared.AuditLog)
		Expect(err).NotTo(HaveOccurred())
		user := leader.Identity().Username
		Expect(writers(record.Writes(events, user))).To(ConsistOf(leader.Name()))
	})

	It("exits with 0 when asked to stop, after the standby could take over at once", func(ctx SpecContext) {
		code, err := leader.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeZero())
		Expect(leader.LogTail(1)).To(ContainSubstring("exiting: asked to stop"))
		Eventually(holder).WithContext(ctx).Should(HavePrefix(standby.Name() + "_"))
	}, SpecTimeout(expect.Long))

	It("exits with 1 and the reason when it has lost the Lease", func(ctx SpecContext) {
		lease := electionLease(ctx)
		Eventually(func() error {
			lease = electionLease(ctx)
			lease.Spec.HolderIdentity = new("somebody-else")
			return kube.Update(ctx, lease)
		}).Should(Succeed())
		code, err := standby.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(1))
		Expect(standby.LogTail(20)).To(And(ContainSubstring("exiting"), ContainSubstring("leader election lost")))
	}, SpecTimeout(expect.Long))

	It("refuses to start without knowing its own namespace, and says what to set", func(ctx SpecContext) {
		command := exec.CommandContext(ctx, binary)
		command.Env = []string{"KUBECONFIG=" + shared.Kubeconfig}
		session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		Eventually(session).Should(gexec.Exit(1))
		Expect(session.Err).To(gbytes.Say("set POD_NAMESPACE or --leader-election-namespace"))
	}, SpecTimeout(expect.Long))
})

func arguments(p env.ReplicaPorts) []string {
	return []string{
		"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=250ms",
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", p.Probe),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", p.Metrics),
		"--webhook-host=127.0.0.1", fmt.Sprintf("--webhook-port=%d", p.Webhook),
	}
}

// tokenOfNewAccount makes a ServiceAccount without rights and a token of it.
func tokenOfNewAccount(ctx context.Context) (string, *corev1.ServiceAccount) {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "scraper-"}}
	Expect(kube.Create(ctx, account)).To(Succeed())
	request := &authenticationv1.TokenRequest{}
	Expect(kube.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token, account
}

// status is the HTTP status of a GET; the certificate is not what it is about.
func status(ctx context.Context, url string) (int, error) { return statusWith(ctx, url, "") }

// statusWith is status for the bearer of a token.
func statusWith(ctx context.Context, url, token string) (int, error) {
	c := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// writers are the Pods that the requests came from, each once.
func writers(events []auditv1.Event) []string {
	pods := sets.New[string]()
	for _, e := range events {
		pods.Insert(e.User.Extra["authentication.kubernetes.io/pod-name"]...)
	}
	return sets.List(pods)
}

func electionLease(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	var lease coordinationv1.Lease
	Expect(kube.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: "manager.leasehold.dev"}, &lease)).To(Succeed())
	return &lease
}

func holder(ctx context.Context) string {
	GinkgoHelper()
	return ptr.Deref(electionLease(ctx).Spec.HolderIdentity, "")
}
