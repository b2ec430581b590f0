package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"leasehold.dev/test/harness/env"
)

// BenchmarkAPIProxy measures what a proxy adds to a request to a real API server: the
// same request is made directly and through the proxy by turns, so that both meet the
// same machine. The direct one is HTTP/2, as client-go has it.
func BenchmarkAPIProxy(b *testing.B) {
	g := NewWithT(b)
	plane, err := env.Start(b.Context(), env.Options{WorkDir: b.TempDir()})
	if errors.Is(err, env.ErrNoAssets) {
		b.Skip(err)
	}
	g.Expect(err).NotTo(HaveOccurred())
	b.Cleanup(func() { g.Expect(plane.Stop()).To(Succeed()) })
	direct := tokenOf(b, plane.Config())
	o, err := APIOptions(direct)
	g.Expect(err).NotTo(HaveOccurred())
	proxy, err := NewProxy(o)
	g.Expect(err).NotTo(HaveOccurred())
	b.Cleanup(func() { g.Expect(proxy.Close()).To(Succeed()) })
	through := rest.CopyConfig(direct)
	proxy.Connect(through)
	b.Run("GET", func(b *testing.B) { compare(b, direct, through, get) })
	b.Run("PATCH", func(b *testing.B) { compare(b, direct, through, patch) })
}

// tokenOf is a client of the API server that has a token and all rights.
func tokenOf(b *testing.B, config *rest.Config) *rest.Config {
	b.Helper()
	g, ctx := NewWithT(b), b.Context()
	admin := kubernetes.NewForConfigOrDie(config)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bench"}}
	_, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "bench"}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = admin.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	token, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, "bench", &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	config = rest.AnonymousClientConfig(config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return config
}

func get(ctx context.Context, c kubernetes.Interface, _ int) error {
	_, err := c.CoreV1().ConfigMaps("default").Get(ctx, "bench", metav1.GetOptions{})
	return err
}

func patch(ctx context.Context, c kubernetes.Interface, n int) error {
	body := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)
	_, err := c.CoreV1().ConfigMaps("default").Patch(ctx, "bench", types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// compare alternates requests of both ways and reports the median and the 99th percentile of
// each, in milliseconds.
func compare(b *testing.B, direct, through *rest.Config, ask func(context.Context, kubernetes.Interface, int) error) {
	b.Helper()
	g := NewWithT(b)
	ways := []kubernetes.Interface{kubernetes.NewForConfigOrDie(direct), kubernetes.NewForConfigOrDie(through)}
	took := make([][]time.Duration, len(ways))
	n := 0
	for i := range ways { // the handshakes are not what is measured
		n++
		g.Expect(ask(b.Context(), ways[i], n)).To(Succeed())
	}
	for b.Loop() {
		for i, way := range ways {
			n++
			began := time.Now()
			err := ask(b.Context(), way, n)
			took[i] = append(took[i], time.Since(began))
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	for _, at := range []int{50, 99} {
		a, p := percentile(took[0], at), percentile(took[1], at)
		b.ReportMetric(a, fmt.Sprintf("direct-p%d-ms", at))
		b.ReportMetric(p, fmt.Sprintf("proxied-p%d-ms", at))
		b.ReportMetric(p-a, fmt.Sprintf("added-p%d-ms", at))
	}
}

// percentile is in milliseconds.
func percentile(of []time.Duration, at int) float64 {
	slices.Sort(of)
	return float64(of[(len(of)-1)*at/100].Microseconds()) / 1000
}
