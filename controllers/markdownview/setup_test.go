// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

func requested(requests []reconcile.Request) string {
	keys := []string{}
	for _, r := range requests {
		keys = append(keys, r.String())
	}
	slices.Sort(keys)
	return fmt.Sprint(keys)
}

// Each tick enqueues every view.
func TestAllViews(t *testing.T) {
	other := view(func(v *v1beta1.MarkdownView) { v.Name = "other" })
	r := &Reconciler{}
	r.Client = reconcilertest.NewClientBuilder().WithObjects(view(), other).Build()
	if got, want := requested(r.allViews(t.Context(), nil)), "[ns/book ns/other]"; got != want {
		t.Errorf("a tick enqueues %s, want %s", got, want)
	}
}

func TestViewsOf(t *testing.T) {
	owned := func(o client.Object, version, kind, name string, controls bool) client.Object {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: "u",
			Controller: new(controls)}})
		return o
	}
	controlled := func(o client.Object, kind, name string) client.Object {
		return owned(o, v1beta1.GroupVersion.String(), kind, name, true)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	for reason, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"owned": {controlled(&appsv1.Deployment{ObjectMeta: meta("viewer-a")},
			"MarkdownView", "a"), "[ns/a]"},
		"a child's name, without an owner": {&corev1.Service{ObjectMeta: meta("viewer-a")}, "[ns/a]"},
		"a child's name, with another owner": {controlled(&corev1.ConfigMap{ObjectMeta: meta("markdowns-a")},
			"MarkdownView", "b"), "[ns/a ns/b]"},
		"another name, owned": {controlled(&corev1.ConfigMap{ObjectMeta: meta("x")}, "MarkdownView", "b"),
			"[ns/b]"},
		"owned by the kind of another group": {owned(&corev1.ConfigMap{ObjectMeta: meta("x")}, "example.com/v1beta1",
			"MarkdownView", "b", true), "[]"},
		"owned by a view that is no controller": {owned(&corev1.ConfigMap{ObjectMeta: meta("x")},
			v1beta1.GroupVersion.String(), "MarkdownView", "b", false), "[]"},
		"owned by another kind":                  {controlled(&corev1.ConfigMap{ObjectMeta: meta("x")}, "Tenant", "b"), "[]"},
		"a ConfigMap with a Deployment's prefix": {&corev1.ConfigMap{ObjectMeta: meta("viewer-a")}, "[]"},
		"only a prefix":                          {&corev1.Service{ObjectMeta: meta("viewer-")}, "[]"},
	} {
		if got := requested(viewsOf(t.Context(), tc.object)); got != tc.want {
			t.Errorf("%s: enqueues %s, want %s", reason, got, tc.want)
		}
	}
}

// The cache stores neither texts nor what other clients may fill, whatever the API server accepts.
// That it stores enough is shown by the golden reconciles, which read through it.
func TestCacheHasNoTexts(t *testing.T) {
	long := strings.Repeat("x", 256<<10)
	v := view(showing(ofSize(v1beta1.MaxMarkdownBytes)))
	content := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: labelsFor(v)},
		Data: map[string]string{"a.md": long}, BinaryData: map[string][]byte{"b": []byte(long)}}
	for _, object := range []client.Object{v, content, &appsv1.Deployment{ObjectMeta: content.ObjectMeta},
		&corev1.Service{ObjectMeta: content.ObjectMeta}} {
		object.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": long,
			v1beta1.AnnotationTenantUID: long, v1beta1.AnnotationPaused: "true", v1beta1.AnnotationRequestedAt: "now"})
		marked := labelsFor(v)
		for i := range 10_000 {
			marked[fmt.Sprint("x", i)] = ""
			object.SetOwnerReferences(append(object.GetOwnerReferences(), metav1.OwnerReference{UID: types.UID(fmt.Sprint(i))}))
		}
		object.SetLabels(marked)
		object.SetFinalizers([]string{"example.com/" + long})
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: long}})
		cached := inCache(t, object)
		text, err := json.Marshal(cached)
		if err != nil || len(text) > 1<<10 {
			t.Errorf("%T has %d bytes in the cache, want at most 1 KiB: %v", object, len(text), err)
		}
		if got := cached.GetAnnotations(); len(got) != 3 {
			t.Errorf("%T has the annotations %q, want those that direct the operator, and the mark", object, got)
		}
	}
	got := inCache(t, v).(*v1beta1.MarkdownView)
	for name, text := range v.Spec.Markdowns {
		want := v1beta1.MarkdownText(digest(string(text)))
		if got.Spec.Markdowns[name] != want || len(got.Spec.Markdowns) != 1 {
			t.Errorf("the files in the cache are %q, want the digests", got.Spec.Markdowns)
		}
	}
}

// A child that another client has filled with many small parts, as keys, labels or variables, is cached without
// what it is compared by. Its status and its owner remain.
func TestCacheHasNoLargeChildren(t *testing.T) {
	const parts = 100_000
	many, binary := map[string]string{}, map[string][]byte{}
	for i := range parts {
		many[fmt.Sprint("a", i)] = ""
		binary[fmt.Sprint("a", i)] = nil
	}
	of := func(o observation, into client.Object, change func()) client.Object {
		change()
		into.SetLabels(labelsFor(o.view))
		return inCache(t, into)
	}
	o := *appliedObservation(t, view())
	for kind, child := range map[string]client.Object{
		"the keys of a ConfigMap":   of(o, o.configMap, func() { o.configMap.Annotations, o.configMap.Data = nil, many }),
		"the binary keys":           of(o, &corev1.ConfigMap{BinaryData: binary}, func() {}),
		"the selector of a Service": of(o, o.service, func() { o.service.Annotations, o.service.Spec.Selector = nil, many }),
		"the labels of a template": of(o, o.deployment, func() {
			o.deployment.Annotations, o.deployment.Spec.Template.Labels = nil, many
		}),
	} {
		if text, err := json.Marshal(child); err != nil || len(text) > 2<<10 {
			t.Errorf("%s: %d bytes in the cache, %v", kind, len(text), err)
		}
	}
	if ownerOf(o.view, o.deployment) != self || ownerOf(o.view, o.service) != self {
		t.Error("the owner is lost")
	}
	longest := []v1beta1.ViewerArg{v1beta1.ViewerArg(strings.Repeat("x", 1024))}
	usual := appliedObservation(t, view(args(slices.Repeat(longest, 32)...),
		image(strings.Repeat("a", 200)+":1"), unlisted(v1beta1.MaxMarkdowns-1, "a%03d.md")))
	if got := actions(decide(usual)); got != [3]action{keep, keep, keep} {
		t.Errorf("the largest children of the operator: %v, want that they are kept", got)
	}
}

// A text that looks like a digest is a text: a client may write the digest of the right text in its place.
func TestForgedDigestIsADifference(t *testing.T) {
	v := view()
	o := appliedObservation(t, v)
	forged := &corev1.ConfigMap{ObjectMeta: o.configMap.ObjectMeta, Data: maps.Clone(o.configMap.Data)}
	forged.Annotations = map[string]string{v1beta1.AnnotationContentHash: o.want.hash} // as the API server has it
	o.configMap = inCache(t, forged).(*corev1.ConfigMap)
	if got := actions(decide(o)); got[0] != update {
		t.Errorf("the ConfigMap with digests in place of texts: %s, want %s", got[0], update)
	}
	if got := validation.ValidateAnnotations(map[string]string{digested: ""}, field.NewPath("metadata")); len(got) == 0 {
		t.Errorf("an object of the API may have the annotation %s", digested)
	}
}

// Of the children's kinds, the cache stores only objects with the operator's label. It gets the
// tombstones of deleted objects as they are.
func TestCacheSelectsChildren(t *testing.T) {
	for object, by := range CacheByObject() {
		_, isView := object.(*v1beta1.MarkdownView)
		if stored := inCache(t, object) != nil; stored != isView {
			t.Errorf("%T without a label is stored: %t", object, stored)
		}
		if same, err := by.Transform("a tombstone"); err != nil || same != "a tombstone" {
			t.Errorf("%T: got %v, %v, want the same value", object, same, err)
		}
	}
}
