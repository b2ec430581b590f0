package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/test/harness/expect"
)

const metricsPort = 8443

func TestMetrics(t *testing.T) {
	const name = "e2e-metrics"
	meta := metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}
	stranger := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name + "-stranger", Namespace: meta.Namespace}}
	reader := &corev1.ServiceAccount{ObjectMeta: meta}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "leasehold-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: meta.Namespace}},
	}
	both := func(ask func(ctx context.Context, g *WithT, metrics *metricsClient, leads bool)) features.Func {
		return step(func(ctx context.Context, g *WithT) {
			leader, err := shared.leader(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			pods, err := shared.pods(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods).To(HaveLen(2))
			for i := range pods {
				address, stop, err := shared.cluster.Tunnel(ctx, pods[i].Spec.NodeName, pods[i].Status.PodIP, metricsPort)
				g.Expect(err).NotTo(HaveOccurred())
				metrics := newMetricsClient(address)
				ask(ctx, g, metrics, pods[i].Name == leader.Name)
				metrics.http.CloseIdleConnections()
				stop()
			}
		})
	}
	afterwards(t, func(ctx context.Context, g *WithT) { remove(ctx, g, binding, reader, stranger) })
	testenv.Test(t, features.New("the metrics of leader and standby").
		Setup(step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.client.Create(ctx, stranger)).To(Succeed())
			g.Expect(shared.client.Create(ctx, reader)).To(Succeed())
			g.Expect(shared.client.Create(ctx, binding)).To(Succeed())
		})).
		Assess("are refused without a token", both(func(ctx context.Context, g *WithT, metrics *metricsClient, _ bool) {
			status, _, err := metrics.get(ctx, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status).To(Equal(http.StatusUnauthorized))
		})).
		Assess("are refused to those without the right",
			both(func(ctx context.Context, g *WithT, metrics *metricsClient, _ bool) {
				status, _, err := metrics.get(ctx, token(ctx, g, stranger))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status).To(Equal(http.StatusForbidden))
			})).
		Assess("are shown to those with it, and have our series",
			both(func(ctx context.Context, g *WithT, metrics *metricsClient, leads bool) {
				memory := memoryLimit(ctx, g)
				right := token(ctx, g, reader)
				// A refusal from before the right was there is remembered for a while.
				g.Eventually(func(g Gomega) {
					status, text, err := metrics.get(ctx, right)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(status).To(Equal(http.StatusOK))
					g.Expect(series(text, "leasehold_objects")).NotTo(BeEmpty())
					g.Expect(series(text, "controller_runtime_webhook_requests_total")).NotTo(BeEmpty())
					// Garbage is collected in time, however much the fleet has grown.
					g.Expect(text).To(ContainSubstring(fmt.Sprintf("\ngo_gc_gomemlimit_bytes %v\n", math.Floor(0.8*memory))))
					master := "0"
					if leads {
						master = "1"
					}
					g.Expect(series(text, "leader_election_master_status")).To(HaveExactElements(HaveSuffix(" " + master)))
				}).WithContext(ctx).WithTimeout(expect.Long).WithPolling(poll).Should(Succeed())
			})).
		Feature())
}

// memoryLimit is that of the operator's container, in bytes.
func memoryLimit(ctx context.Context, g *WithT) float64 {
	pods, err := shared.pods(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pods).NotTo(BeEmpty())
	i := slices.IndexFunc(pods[0].Spec.Containers, func(c corev1.Container) bool { return c.Name == operatorContainer })
	g.Expect(i).NotTo(Equal(-1), "no container %s in %s", operatorContainer, pods[0].Name)
	return pods[0].Spec.Containers[i].Resources.Limits.Memory().AsApproximateFloat64()
}

// series are the lines of a metric.
func series(text, metric string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, metric+"{") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// token is a token for the account, for the API server's audience, for ten minutes.
func token(ctx context.Context, g *WithT, account *corev1.ServiceAccount) string {
	request, err := shared.cluster.Clients().CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(600))}},
		metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return request.Status.Token
}

// metricsClient reads the metrics of one Pod.
type metricsClient struct {
	url  string
	http *http.Client
}

// newMetricsClient does not look at the certificate, which each Pod makes for itself.
func newMetricsClient(address string) *metricsClient {
	return &metricsClient{url: "https://" + address + "/metrics", http: &http.Client{
		Timeout:   expect.Short,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}}
}

func (m *metricsClient) get(ctx context.Context, token string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, nil)
	if err != nil {
		return 0, "", fmt.Errorf("asking for the metrics: %w", err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := m.http.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("asking for the metrics: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", fmt.Errorf("reading the metrics: %w", err)
	}
	return response.StatusCode, string(text), nil
}
