package e2e

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

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

// viewChildren are what the operator makes for a view, by name, not read yet.
func viewChildren(v *v1beta1.MarkdownView) []client.Object {
	viewer := metav1.ObjectMeta{Namespace: v.Namespace, Name: "viewer-" + v.Name}
	return []client.Object{
		configMap(v.Namespace, "markdowns-"+v.Name),
		&appsv1.Deployment{ObjectMeta: viewer}, &corev1.Service{ObjectMeta: viewer},
	}
}
