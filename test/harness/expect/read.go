// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fetched returns a function for Eventually that reads the current object into o.
func Fetched[T client.Object](c client.Reader, o T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		return o, c.Get(ctx, client.ObjectKeyFromObject(o), o)
	}
}

// Reading returns a function for BeGone that reads the object without changing o, and returns the error.
func Reading(c client.Reader, o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
	}
}

// EventsAbout returns a function for Eventually that lists the events about an object, by its UID. Events about
// cluster-scoped objects are in namespace default.
func EventsAbout(c client.Reader, o client.Object) func(context.Context) ([]eventsv1.Event, error) {
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return func(ctx context.Context) ([]eventsv1.Event, error) {
		var list eventsv1.EventList
		err := c.List(ctx, &list, client.InNamespace(namespace))
		var about []eventsv1.Event
		for _, e := range list.Items {
			if e.Regarding.UID == o.GetUID() {
				about = append(about, e)
			}
		}
		return about, err
	}
}
