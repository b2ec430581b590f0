// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

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
			for _, check := range []string{"readyz", "readyz/caches", "readyz/webhook", "healthz", "healthz/ping"} {
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

	It("accepts no TLS before 1.2", func(ctx SpecContext) {
		for _, port := range []int{leader.Ports().Webhook, leader.Ports().Metrics} {
			connect := func(newest uint16) error {
				dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true,
					MinVersion: tls.VersionTLS10, MaxVersion: newest}}
				connection, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
				if err == nil {
					err = connection.Close()
				}
				return err
			}
			Eventually(connect).WithArguments(uint16(tls.VersionTLS12)).Should(Succeed())
			Expect(connect(tls.VersionTLS11)).To(MatchError(ContainSubstring("protocol version not supported")))
		}
	}, SpecTimeout(expect.Long))

	It("leads under the Pod's name", func(ctx SpecContext) {
		Expect(holder(ctx)).To(HavePrefix(leader.Name() + "_"))
	}, SpecTimeout(expect.Long))

	It("shows its metrics, on leader and standby, only to those who may read them", func(ctx SpecContext) {
		stranger, _ := tokenOfNewAccount(ctx)
		reader := tokenOfReader(ctx, "leasehold-metrics-reader", "/metrics")
		for _, r := range []*env.Replica{leader, standby} {
			url := fmt.Sprintf("https://127.0.0.1:%d/metrics", r.Ports().Metrics)
			// Readiness does not wait for the metrics server, which first generates a key.
			Eventually(status).WithContext(ctx).WithArguments(url).Should(Equal(http.StatusUnauthorized))
			Expect(statusWith(ctx, url, stranger)).To(Equal(http.StatusForbidden))
			Expect(statusWith(ctx, url, reader)).To(Equal(http.StatusOK))
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
		token := tokenOfReader(ctx, "leasehold-metrics-reader", "/metrics")
		// The value of a metric of the Tenants' controller, summed over its other labels.
		value := func(g Gomega, r *env.Replica, name string, labels ...string) (sum float64) {
			metrics := metricsOf(ctx, g, r, token)
			for line := range strings.Lines(metrics) {
				series, number, _ := strings.Cut(strings.TrimSpace(line), "} ")
				if strings.HasPrefix(series, name+"{") && !slices.ContainsFunc(labels,
					func(label string) bool { return !strings.Contains(series, label) }) {
					v, err := strconv.ParseFloat(number, 64)
					g.Expect(err).NotTo(HaveOccurred())
					sum += v
				}
			}
			return sum
		}
		Eventually(func(g Gomega) {
			const reconciles, depth = "controller_runtime_reconcile_total", "workqueue_depth"
			g.Expect(value(g, leader, reconciles, `controller="tenant"`, `result="success"`)).To(BeNumerically(">", 0))
			g.Expect(value(g, standby, reconciles, `controller="tenant"`)).To(BeZero())
			g.Expect(value(g, standby, depth, `name="tenant"`)).To(BeNumerically(">", 0))
		}).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(expect.Long))

	It("stays ready where it may not bind the admins' role, and says so in the Tenant", func(ctx SpecContext) {
		narrowed := &rbacv1.ClusterRole{}
		Expect(kube.Get(ctx, client.ObjectKey{Name: "leasehold-manager-role"}, narrowed)).To(Succeed())
		shipped := narrowed.DeepCopy()
		narrowed.Rules = slices.DeleteFunc(narrowed.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Verbs, "bind")
		})
		Expect(narrowed.Rules).To(HaveLen(len(shipped.Rules) - 1))
		Expect(kube.Update(ctx, narrowed)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			narrowed.Rules = shipped.Rules
			Expect(kube.Update(ctx, narrowed)).To(Succeed())
		})
		tenant := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "leasehold.dev/v1beta1", "kind": "Tenant", "metadata": map[string]any{"generateName": "unbound-"},
			"spec": map[string]any{
				"namespaces": []any{"dev"}, "admins": []any{map[string]any{"kind": "User", "name": "jane"}},
			},
		}}
		Expect(kube.Create(ctx, tenant)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(kube.Delete(ctx, tenant)).To(Succeed()) })
		Eventually(func(g Gomega) {
			g.Expect(kube.Get(ctx, client.ObjectKeyFromObject(tenant), tenant)).To(Succeed())
			g.Expect(fmt.Sprint(tenant.Object["status"])).To(And(ContainSubstring("RBACForbidden"),
				ContainSubstring("add admin to the resourceNames of the rule with the verb bind")))
		}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
		for _, r := range []*env.Replica{leader, standby} {
			Expect(r.Ready(ctx)).To(Succeed(), r.Name())
		}
	}, SpecTimeout(expect.Long))

	It("has all the rights it needs, and its standby wrote nothing", func() {
		for _, r := range []*env.Replica{leader, standby} {
			Expect(logOf(r)).To(ContainSubstring("Serving webhook server"))
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
		Expect(leader.LogTail(1)).To(ContainSubstring("exiting after a termination signal"))
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

// metricsOf returns all metrics of a replica.
func metricsOf(ctx context.Context, g Gomega, r *env.Replica, token string) string {
	GinkgoHelper()
	response, err := get(ctx, fmt.Sprintf("https://127.0.0.1:%d/metrics", r.Ports().Metrics), token)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	g.Expect(response).To(HaveHTTPStatus(http.StatusOK))
	text, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return string(text)
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
