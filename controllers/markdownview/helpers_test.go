// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const defaultImage = "leasehold-viewer:test"

type files = map[string]v1beta1.MarkdownText

func view(with ...func(*v1beta1.MarkdownView)) *v1beta1.MarkdownView {
	v := &v1beta1.MarkdownView{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "MarkdownView"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "book", UID: "uid", Generation: 2},
		Spec: v1beta1.MarkdownViewSpec{Markdowns: files{"SUMMARY.md": "- [A](a.md)\n", "a.md": "x"}, Replicas: 2,
			ViewerImage: "v:1"},
	}
	for _, f := range with {
		f(v)
	}
	return v
}

func showing(f files) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) { v.Spec.Markdowns = f }
}

func image(name string) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) { v.Spec.ViewerImage = name }
}

func replicas(n int32) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) { v.Spec.Replicas = n }
}

func args(list ...v1beta1.ViewerArg) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) { v.Spec.ViewerArgs = list }
}

// ofSize returns files whose names and contents have n bytes.
func ofSize(n int) files {
	const name = "SUMMARY.md"
	return files{name: v1beta1.MarkdownText(strings.Repeat("x", n-len(name)))}
}

// appliedObservation returns the observation of a view whose children are all as desired.
func appliedObservation(t testing.TB, v *v1beta1.MarkdownView) *observation {
	t.Helper()
	o := &observation{view: inCache(t, v).(*v1beta1.MarkdownView),
		configMap: &corev1.ConfigMap{}, deployment: &appsv1.Deployment{}, service: &corev1.Service{}}
	o.want = render(o.view, contentHash(o.view.Spec.Markdowns), defaultImage)
	o.view.Status.ContentHash = o.want.hash
	c, want := reconcilertest.NewClientBuilder().Build(), render(v, o.want.hash, defaultImage)
	for _, child := range []struct {
		config runtime.ApplyConfiguration
		name   string
		into   client.Object
	}{
		{want.configMap, contentPrefix + v.Name, o.configMap},
		{want.deployment, viewerPrefix + v.Name, o.deployment},
		{want.service, viewerPrefix + v.Name, o.service},
	} {
		err := c.Apply(t.Context(), child.config, apply.FieldOwner, client.ForceOwnership)
		key := client.ObjectKey{Namespace: v.Namespace, Name: child.name}
		if err = errors.Join(err, c.Get(t.Context(), key, child.into)); err != nil {
			t.Fatal(err)
		}
		if _, err := slim(child.into); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// hashOf returns the hash of a view's content, by its digests in the cache.
func hashOf(t testing.TB, v *v1beta1.MarkdownView) string {
	t.Helper()
	return contentHash(inCache(t, v).(*v1beta1.MarkdownView).Spec.Markdowns)
}

// typed returns the object of an apply configuration.
func typed[T any](t testing.TB, config any) *T {
	t.Helper()
	text, err := json.Marshal(config)
	out := new(T)
	if err = errors.Join(err, json.Unmarshal(text, out)); err != nil {
		t.Fatal(err)
	}
	return out
}
