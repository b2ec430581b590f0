package manager_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/runners/health"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/integration/internal/operator"
	"leasehold.dev/test/leasehold"
)

const (
	operatorNamespace = leasehold.Namespace
	// Without a build cache, the operator takes minutes to build on a small machine.
	buildTimeout = 10 * time.Minute
)

// Serial: a cluster has one installation, and the process that started the control plane runs it.
var _ = Describe("The operator as it ships", Serial, Ordered, func() {
	var (
		installation    *env.Installation
		leader, standby *env.Replica
		began           record.Bookmark
	)

	BeforeAll(func(ctx SpecContext) {
		if shared.AuditLog == "" {
			Skip("not on an existing cluster: the installation would replace the one that is there")
		}
		var err error
		// The Pods of an installation before had the same names, and its standby leads for a moment
		// where its leader stops first.
		began, err = record.End(shared.AuditLog)
		Expect(err).NotTo(HaveOccurred())
		installation, err = controlPlane.Install(ctx, leasehold.Subject("../../../config", operator.Manager()))
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
			for _, check := range []string{"readyz", "readyz/caches", "readyz/webhook", "readyz/tenant-admin-role", "healthz",
				"healthz/ping", "healthz/workers"} {
				Expect(status(ctx, fmt.Sprintf("http://127.0.0.1:%d/%s", r.Ports().Probe, check))).To(Equal(http.StatusOK),
					r.Name()+" "+check)
			}
			Expect(status(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz/no-such-check", r.Ports().Probe))).
				To(Equal(http.StatusNotFound))
		}
	}, SpecTimeout(expect.Long))

	It("serves its webhooks by one certificate on both replicas, and by another one without a restart",
		func(ctx SpecContext) {
			expectRotation(ctx, leader, standby)
			Expect(holder(ctx)).To(HavePrefix(leader.Name() + "_"))
			Expect(standby.Running()).To(BeTrue())
		}, SpecTimeout(expect.Long))

	It("leads under the Pod's name", func(ctx SpecContext) {
		Expect(holder(ctx)).To(HavePrefix(leader.Name() + "_"))
	}, SpecTimeout(expect.Long))

	It("shows its metrics and its debug page, on leader and standby, each only to those who may read it",
		func(ctx SpecContext) {
			stranger, _ := tokenOfNewAccount(ctx)
			readers := map[string]string{
				"/metrics":         tokenOfReader(ctx, "leasehold-metrics-reader", "/metrics"),
				"/debug/leasehold": tokenOfReader(ctx, "leasehold-debug-reader", "/debug/leasehold"),
			}
			for _, r := range []*env.Replica{leader, standby} {
				for path := range readers {
					url := fmt.Sprintf("https://127.0.0.1:%d%s", r.Ports().Metrics, path)
					// Readiness does not wait for the metrics server, which first generates a key.
					Eventually(status).WithContext(ctx).WithArguments(url).Should(Equal(http.StatusUnauthorized))
					Expect(statusWith(ctx, url, stranger)).To(Equal(http.StatusForbidden))
					for readable, token := range readers {
						want := http.StatusForbidden
						if readable == path {
							want = http.StatusOK
						}
						Expect(statusWith(ctx, url, token)).To(Equal(want), "%s by a reader of %s", path, readable)
					}
				}
			}
		}, SpecTimeout(expect.Long))

	It("keeps the queues of its standby filled, and works on its leader only", func(ctx SpecContext) {
		tenant := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "leasehold.dev/v1beta1", "kind": "Tenant", "metadata": map[string]any{"generateName": "warm-"},
			"spec": map[string]any{
				"namespaces": []any{"dev"}, "admins": []any{map[string]any{"kind": "User", "name": "jane"}},
			},
		}}
		Expect(kube.Create(ctx, tenant)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(kube.Delete(ctx, tenant)).To(Succeed()) })
		token := tokenOfReader(ctx, "leasehold-debug-reader", "/debug/leasehold")
		Eventually(func(g Gomega) {
			leads, waits := debugPage(ctx, g, leader, token), debugPage(ctx, g, standby, token)
			g.Expect(leads).To(And(HaveField("Leader", BeTrue()), HaveField("Replica", leader.Name()),
				HaveField("Controllers", ContainElement(
					And(HaveField("Name", "tenant"), HaveField("Working", BeTrue()), HaveField("Started", BeNumerically(">", 0)))))))
			g.Expect(waits).To(And(HaveField("Leader", BeFalse()), HaveField("Replica", standby.Name()),
				HaveField("Controllers", ContainElement(
					And(HaveField("Name", "tenant"), HaveField("Working", BeFalse()), HaveField("Started", BeZero()),
						HaveField("Queued", BeNumerically(">", 0)))))))
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(expect.Long))

	It("keeps a replica that may not bind the admins' role from being ready, reports why, and recovers without a restart",
		func(ctx SpecContext) {
			wrong, err := installation.Start(ctx, func(o *env.ReplicaOptions) {
				shipped := o.Args
				o.Args = func(p env.ReplicaPorts) []string { return append(shipped(p), "--tenant-admin-cluster-role=view") }
			})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				_, err := wrong.Stop(ctx)
				Expect(err).NotTo(HaveOccurred())
			})
			check := func(name string) (int, error) {
				return status(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz/%s", wrong.Ports().Probe, name))
			}
			Eventually(wrong.LogTail).WithArguments(100).WithTimeout(expect.Medium).
				Should(ContainSubstring("not ready until the right is granted"))
			for _, other := range []string{"caches", "webhook"} {
				Eventually(check).WithArguments(other).WithTimeout(expect.Medium).Should(Equal(http.StatusOK))
			}
			Eventually(wrong.Ready).WithContext(ctx).Should(MatchError(ContainSubstring("[-]tenant-admin-role failed")))
			Consistently(func(g Gomega) {
				g.Expect(wrong.Ready(ctx)).NotTo(Succeed())
				g.Expect(wrong.Running()).To(BeTrue())
			}).Should(Succeed())
			Expect(bodyOf(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz/tenant-admin-role", wrong.Ports().Probe))).To(And(
				ContainSubstring(`the operator may not bind clusterroles.rbac.authorization.k8s.io "view"`),
				ContainSubstring(`add "view" to the resourceNames beside bind in config/rbac/manager_role.yaml`),
				ContainSubstring("or change --tenant-admin-cluster-role")))

			grantBind(ctx, "view")
			Eventually(wrong.Ready).WithContext(ctx).WithTimeout(expect.Long).Should(Succeed())
			Expect(strings.Count(logOf(wrong), "not ready until the right is granted")).To(Equal(1), "reported once")
			Expect(logOf(wrong)).To(ContainSubstring("the right is granted"))
			Eventually(leader.Ready).WithContext(ctx).Should(Succeed(), "the replicas with the shipped flag stay ready")
		}, SpecTimeout(2*expect.Long))

	It("has all the rights it needs, and its standby wrote nothing", func() {
		for _, r := range []*env.Replica{leader, standby} {
			Expect(logOf(r)).To(ContainSubstring(`"name":"webhooks"`), "it serves the webhooks")
			Expect(logOf(r)).NotTo(ContainSubstring("forbidden: User"), r.Name())
			Expect(logOf(r)).To(ContainSubstring(`"replica":"`+r.Name()+"_"), "the log names the replica as the Lease does")
		}
		events, _, err := record.ReadAuditLogFrom(shared.AuditLog, began)
		Expect(err).NotTo(HaveOccurred())
		user := leader.Identity().Username
		Expect(writers(record.Writes(events, user))).To(ConsistOf(leader.Name()))
	})

	It("releases the Lease and exits with 0 after SIGTERM, so that the standby leads at once", func(ctx SpecContext) {
		code, err := leader.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeZero())
		Expect(leader.LogTail(1)).To(ContainSubstring("exiting: received a signal to stop"))
		// The shipped Lease of 15 s would expire later than this waits.
		Eventually(holder).WithContext(ctx).WithTimeout(expect.Short).Should(HavePrefix(standby.Name() + "_"))
	}, SpecTimeout(expect.Long))
})

// tokenOfNewAccount creates a ServiceAccount without permissions and returns a token of it.
func tokenOfNewAccount(ctx context.Context) (string, *corev1.ServiceAccount) {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "scraper-"}}
	Expect(kube.Create(ctx, account)).To(Succeed())
	request := &authenticationv1.TokenRequest{}
	Expect(kube.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token, account
}

// tokenOfReader returns a token of a new account with the role, which permits to read path.
func tokenOfReader(ctx context.Context, role, path string) string {
	GinkgoHelper()
	token, account := tokenOfNewAccount(ctx)
	bindAccount(ctx, role, account.Namespace, account.Name)
	// Wait for the authorizer first, because a replica caches a refusal.
	Eventually(func(g Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:                  "system:serviceaccount:" + account.Namespace + ":" + account.Name,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}
		g.Expect(kube.Create(ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeTrue())
	}).WithContext(ctx).Should(Succeed())
	return token
}

// bindAccount binds the ClusterRole to the account for the rest of the spec.
func bindAccount(ctx context.Context, role, namespace, account string) {
	GinkgoHelper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
	}
	Expect(kube.Create(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(kube.Delete(ctx, binding)).To(Succeed()) })
}

// grantBind permits the operator to bind the ClusterRole for the rest of the spec.
func grantBind(ctx context.Context, role string) {
	GinkgoHelper()
	grant := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bind-"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"bind"},
			ResourceNames: []string{role},
		}},
	}
	Expect(kube.Create(ctx, grant)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(kube.Delete(ctx, grant)).To(Succeed()) })
	bindAccount(ctx, grant.Name, operatorNamespace, leasehold.ServiceAccount)
}

// page is the content of a replica's debug page.
type page struct {
	Replica     string
	Leader      bool
	Controllers []health.Controller
}

func debugPage(ctx context.Context, g Gomega, r *env.Replica, token string) (p page) {
	GinkgoHelper()
	response, err := get(ctx, fmt.Sprintf("https://127.0.0.1:%d/debug/leasehold", r.Ports().Metrics), token)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	g.Expect(response).To(HaveHTTPStatus(http.StatusOK))
	g.Expect(json.NewDecoder(response.Body).Decode(&p)).To(Succeed())
	return p
}

func bodyOf(ctx context.Context, url string) (string, error) {
	response, err := get(ctx, url, "")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// status returns the HTTP status of a GET without verification of the certificate.
func status(ctx context.Context, url string) (int, error) { return statusWith(ctx, url, "") }

// statusWith is status with a bearer token.
func statusWith(ctx context.Context, url, token string) (int, error) {
	response, err := get(ctx, url, token)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func get(ctx context.Context, url, token string) (*http.Response, error) {
	c := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return c.Do(req)
}

// writers returns the Pods that sent the requests, each once.
func writers(events []auditv1.Event) []string {
	pods := sets.New[string]()
	for _, e := range events {
		pods.Insert(e.User.Extra["authentication.kubernetes.io/pod-name"]...)
	}
	return sets.List(pods)
}

func electionLease(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease, err := leasehold.ElectionLease(ctx, kube)
	Expect(err).NotTo(HaveOccurred())
	return lease
}

func holder(ctx context.Context) string {
	GinkgoHelper()
	return ptr.Deref(electionLease(ctx).Spec.HolderIdentity, "")
}
