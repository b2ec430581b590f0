// SPDX-License-Identifier: Apache-2.0

package main

import (
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
