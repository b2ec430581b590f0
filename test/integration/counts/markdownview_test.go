// SPDX-License-Identifier: Apache-2.0

package counts_test

import (
	"context"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

func newView(name string) *v1beta1.MarkdownView {
	return &v1beta1.MarkdownView{ObjectMeta: named(team, name), Spec: v1beta1.MarkdownViewSpec{
		Markdowns: map[string]v1beta1.MarkdownText{"SUMMARY.md": "- [One](one.md)\n", "one.md": "# One\n"},
		Replicas:  2,
	}}
}

// countViews counts the life cycle of a MarkdownView.
func (c *counter) countViews(ctx context.Context) {
	v := newView("book")
	content := &corev1.ConfigMap{ObjectMeta: named(team, "markdowns-book")}
	service := &corev1.Service{ObjectMeta: named(team, "viewer-book")}
	serve := []step{then(rollOut("book"), ready(v))}
	edit := func(f func(*v1beta1.MarkdownView)) []step { return []step{then(change(v, f), observed(v))} }
	c.count(ctx,
		phase{"markdownview.create", "config map, deployment, service; the status", []step{then(create(v), observed(v))}},
		phase{"markdownview.serve", "the status, when the viewers are available", serve},
		phase{"markdownview.update.content", "config map, deployment; the status",
			edit(func(v *v1beta1.MarkdownView) { v.Spec.Markdowns["one.md"] = "# Two\n" })},
		phase{"markdownview.serve.content", "the status", serve},
		phase{"markdownview.update.replicas", "deployment; the status",
			edit(func(v *v1beta1.MarkdownView) { v.Spec.Replicas = 1 })},
		phase{"markdownview.serve.replicas", "the status", serve},
		phase{"markdownview.update.label", "nothing",
			[]step{change(v, func(v *v1beta1.MarkdownView) { v.Labels = map[string]string{"example.com/a": "b"} })}},
		phase{"markdownview.drift.content", "the config map",
			[]step{change(content, func(c *corev1.ConfigMap) { c.Data["one.md"] = "# Three\n" })}},
		phase{"markdownview.drift.deleted", "the service", []step{remove(service)}},
		phase{"markdownview.delete", "nothing: the garbage collector follows the owner references",
			[]step{then(then(remove(v), gone(v)), gone(service))}},
	)
}

// rollOut replaces the Deployment controller: all viewers are available at once.
func rollOut(view string) step {
	return func(ctx context.Context) {
		d := &appsv1.Deployment{ObjectMeta: named(team, "viewer-"+view)}
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation,
				Replicas:           n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
				Conditions: []appsv1.DeploymentCondition{{
					Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
				}},
			}
			g.Expect(k8s.Status().Update(ctx, d)).To(Succeed())
		}).WithContext(ctx).WithTimeout(expect.Short).Should(Succeed())
	}
}
