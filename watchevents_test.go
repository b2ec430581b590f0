// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// watchEvents are the events that a controller has to handle differently. The object has the given
// generation after the event.
var watchEvents = map[string]func(*informer, client.Object){
	"created": func(i *informer, o client.Object) { i.Add(o) },
	"deleted": func(i *informer, o client.Object) { i.Delete(o) },
	"with another spec": func(i *informer, o client.Object) {
		before := o.DeepCopyObject().(client.Object)
		o.SetGeneration(before.GetGeneration() + 1)
		i.change(before, o)
	},
	"with another annotation": func(i *informer, o client.Object) {
		before := o.DeepCopyObject().(client.Object)
		o.SetAnnotations(map[string]string{"other": "value"})
		i.change(before, o)
	},
	"without its finalizers": func(i *informer, o client.Object) {
		before := o.DeepCopyObject().(client.Object)
		o.SetFinalizers(nil)
		i.change(before, o)
	},
	"paused":                   annotated(v1beta1.AnnotationPaused, "", "true"),
	"paused as before":         annotated(v1beta1.AnnotationPaused, "true", "true"),
	"resumed":                  annotated(v1beta1.AnnotationPaused, "true", ""),
	"with a request":           annotated(v1beta1.AnnotationRequestedAt, "", "1"),
	"with another request":     annotated(v1beta1.AnnotationRequestedAt, "1", "2"),
	"with a request as before": annotated(v1beta1.AnnotationRequestedAt, "2", "2"),
}

// change sends an update. An update that changes no version has a low priority in the queue, so a mark
// could come first.
func (i *informer) change(before, o client.Object) {
	before.SetResourceVersion("1")
	o.SetResourceVersion("2")
	i.Update(before, o)
}

// annotated sends an update that changes an annotation; "" is none.
func annotated(key, from, to string) func(*informer, client.Object) {
	set := func(o client.Object, value string) {
		if o.SetAnnotations(map[string]string{key: value}); value == "" {
			o.SetAnnotations(nil)
		}
	}
	return func(i *informer, o client.Object) {
		before := o.DeepCopyObject().(client.Object)
		set(before, from)
		set(o, to)
		i.change(before, o)
	}
}

// The garbage collector removes its finalizer within milliseconds after a deletion with --cascade=orphan. The event of
// the deletion is what tells the reconcile, which releases the StorageBucket and needs no Secret.
func TestOrphaningDeletionIsNoticedByItsEvent(t *testing.T) {
	b := &v1beta1.StorageBucket{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x-dev", Name: "a", UID: "u", Generation: 1,
			DeletionTimestamp: new(metav1.Now()), Finalizers: []string{v1beta1.StorageBucketFinalizer}},
		Spec:   v1beta1.StorageBucketSpec{DeletionPolicy: v1beta1.BucketDelete},
		Status: v1beta1.StorageBucketStatus{Provisioning: v1beta1.BucketCreated},
	}
	w, mgr, reader := newWatches(t, b, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x-dev"}})
	if err := buckets.add(t.Context(), offline{mgr, reader, t}); err != nil {
		t.Fatal(err)
	}
	seen := b.DeepCopy()
	seen.Finalizers = append(seen.Finalizers, metav1.FinalizerOrphanDependents)
	i := w.informerOf(b)
	i.first = append(i.first, seen)
	w.start(t, mgr, reader)
	gomega.NewWithT(t).Eventually(func() bool {
		err := reader.Get(t.Context(), client.ObjectKeyFromObject(b), &v1beta1.StorageBucket{})
		return apierrors.IsNotFound(err)
	}).WithTimeout(30*time.Second).Should(gomega.BeTrue(), "the finalizer is removed")
}
