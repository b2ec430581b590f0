package counts

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

func newView(name string) *v1beta1.MarkdownView {
	return &v1beta1.MarkdownView{ObjectMeta: named(place, name), Spec: v1beta1.MarkdownViewSpec{
		Markdowns: map[string]v1beta1.MarkdownText{"SUMMARY.md": "- [One](one.md)\n", "one.md": "# One\n"},
		Replicas:  2,
	}}
}

// views is the life of a MarkdownView. Each roll-out ends at once, as soon as the
// operator has nothing else to do.
func (p *play) views(ctx context.Context) error {
	v := newView("book")
	content := &corev1.ConfigMap{ObjectMeta: named(place, "markdowns-book")}
	address := &corev1.Service{ObjectMeta: named(place, "viewer-book")}
	rolledOut := then(p.rolledOut("book"), p.ready(v))
	edit := func(f func(*v1beta1.MarkdownView)) act { return then(changing(p, v, f), p.observed(v)) }
	return p.play(ctx, []phase{
		{"markdownview.create", 1, []act{then(p.create(v), p.observed(v))}},
		{"markdownview.serve", 1, []act{rolledOut}},
		{"markdownview.update.content", 1, []act{edit(func(v *v1beta1.MarkdownView) { v.Spec.Markdowns["one.md"] = "# Two\n" })}},
		{"markdownview.serve.content", 1, []act{rolledOut}},
		{"markdownview.update.replicas", 1, []act{edit(func(v *v1beta1.MarkdownView) { v.Spec.Replicas = 1 })}},
		{"markdownview.serve.replicas", 1, []act{rolledOut}},
		{"markdownview.update.label", 1, []act{changing(p, v, func(v *v1beta1.MarkdownView) { v.Labels = map[string]string{"example.com/a": "b"} })}},
		{"markdownview.drift.content", 1, []act{changing(p, content, func(c *corev1.ConfigMap) { c.Data["one.md"] = "# Three\n" })}},
		{"markdownview.drift.deleted", 1, []act{p.remove(address)}},
		// The garbage collector removes the three children.
		{"markdownview.delete", 4, []act{then(p.removeGone(v), p.gone(address))}},
	})
}

// rolledOut plays the Deployment controller: all viewers have come up.
func (p *play) rolledOut(view string) act {
	return func(ctx context.Context) error {
		d := &appsv1.Deployment{ObjectMeta: named(place, "viewer-"+view)}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := p.stage.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
				return err
			}
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation,
				Replicas:           n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
				Conditions: []appsv1.DeploymentCondition{{
					Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
				}},
			}
			return p.stage.Client.Status().Update(ctx, d)
		})
		if err != nil {
			return fmt.Errorf("rolling out %s: %w", d.Name, err)
		}
		return nil
	}
}
