// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
)

func TestMarkdownView(t *testing.T) {
	view := newView(unique("view"))
	var service *corev1.Service
	afterwards(t, func(ctx context.Context, g *WithT) { discard(ctx, g, namespaceOf(view.Namespace)) })
	testenv.Test(t, features.New("A MarkdownView").
		Assess("runs where `restricted` is enforced, with no more than it needs", step(func(ctx context.Context, g *WithT) {
			strictNamespace(ctx, g, view.Namespace)
			g.Expect(shared.client.Create(ctx, view)).To(Succeed())
			await(ctx, g, viewReady(view), Succeed())
			pods := viewers(ctx, g, view)
			g.Expect(pods).To(HaveLen(2))
			for i := range pods {
				g.Expect(podReady(&pods[i])).To(BeTrue())
				g.Expect(privileges(ctx, g, &pods[i])).To(And(
					HaveKeyWithValue("Uid", "65532 65532 65532 65532"), HaveKeyWithValue("CapEff", "0000000000000000"),
					HaveKeyWithValue("NoNewPrivs", "1"), HaveKeyWithValue("Seccomp", "2")))
			}
		})).
		Assess("is served by its Service, at the URL in its status", step(func(ctx context.Context, g *WithT) {
			service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: view.Namespace, Name: "viewer-" + view.Name}}
			g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(service), service)).To(Succeed())
			await(ctx, g, shared.reachable(service), Succeed())
			for _, node := range shared.workers(ctx, g) {
				g.Expect(shared.fetchByName(ctx, node, view.Status.URL)).To(ContainSubstring("Edition one"))
			}
		})).
		Assess("shows changed content without a failed request",
			step(func(ctx context.Context, g *WithT) { rollsOut(ctx, g, view, service) })).
		Feature())
}

// viewers returns the Pods that match the view's selector.
func viewers(ctx context.Context, g *WithT, v *v1beta1.MarkdownView) []corev1.Pod {
	selector, err := labels.Parse(v.Status.Selector)
	g.Expect(err).NotTo(HaveOccurred())
	var pods corev1.PodList
	g.Expect(shared.client.List(ctx, &pods, client.InNamespace(v.Namespace),
		client.MatchingLabelsSelector{Selector: selector})).To(Succeed())
	return pods.Items
}

// privileges returns the capabilities and restrictions of the Pod's only process, as lines of
// /proc/<pid>/status.
func privileges(ctx context.Context, g *WithT, pod *corev1.Pod) map[string]string {
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	out, err := shared.cluster.Exec(ctx, pod.Spec.NodeName, "sh", "-c",
		`cat "$(dirname "$(grep -l -- "$1" /proc/[0-9]*/cgroup 2>/dev/null | head -1)")/status"`, "sh", id)
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(line, ":")
		found[name] = strings.Join(strings.Fields(value), " ")
	}
	return found
}

// rollsOut changes the content while clients on two nodes fetch it. There is one viewer, so another
// cannot mask its failure.
func rollsOut(ctx context.Context, g *WithT, v *v1beta1.MarkdownView, service *corev1.Service) {
	change(ctx, g, v, func(v *v1beta1.MarkdownView) { v.Spec.Replicas = 1 })
	await(ctx, g, viewReady(v), Succeed())
	await(ctx, g, func() []corev1.Pod { return viewers(ctx, g, v) }, HaveLen(1))
	var clients []*pageClient
	for _, node := range shared.workers(ctx, g) {
		clients = append(clients, startPageClient(ctx, node, "http://"+service.Spec.ClusterIP, "Edition one", "Edition two"))
	}
	change(ctx, g, v, func(v *v1beta1.MarkdownView) {
		v.Spec.Markdowns["welcome.md"] = "# Edition two\n\nPears are picked in **October**.\n"
	})
	await(ctx, g, viewReady(v), Succeed())
	// The old viewers end after the rollout, and requests must not fail then either.
	await(ctx, g, func() []corev1.Pod { return viewers(ctx, g, v) }, HaveLen(1))
	sent := 0
	for _, c := range clients {
		got := c.stop(ctx)
		g.Expect(got.err).NotTo(HaveOccurred())
		g.Expect(got.counts).To(And(HaveLen(2), HaveKey("Edition one"), HaveKey("Edition two")),
			"nothing else, so no failure")
		g.Expect(got.last).To(Equal("Edition two"))
		sent += got.counts["Edition one"] + got.counts["Edition two"]
	}
	shared.logf("%d requests while the content changed, none of which failed", sent)
}

// newView is a MarkdownView of two replicas and one page, in a namespace of the
// same name.
func newView(name string) *v1beta1.MarkdownView {
	return &v1beta1.MarkdownView{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name},
		Spec: v1beta1.MarkdownViewSpec{Replicas: 2, Markdowns: map[string]v1beta1.MarkdownText{
			"SUMMARY.md": "# Orchard handbook\n\n- [Welcome](welcome.md)\n",
			"welcome.md": "# Edition one\n\nApples are picked in **September**.\n",
		}},
	}
}

func viewReady(v *v1beta1.MarkdownView) func(context.Context) error {
	return isReady(v, func() []metav1.Condition { return v.Status.Conditions })
}
