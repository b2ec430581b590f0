// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"
)

// sighting is an observed state of the watched object, or the end of the watch.
type sighting struct {
	object  runtime.Object // nil: there is none
	deleted bool           // object is its last state
	listed  bool           // by a live list that was sent at began
	began   time.Duration
	err     error // why the watch ended
}

// watcher watches one object by its name.
type watcher struct {
	client              rest.Interface
	resource, namespace string
	elapsed             func() time.Duration
	timeout             time.Duration // of the list; the watch has none

	sightings chan sighting      // nil while it does not run
	cancel    context.CancelFunc // nil while it does not run
	from      time.Duration      // it is not started before
	explained bool               // the consequence of a forbidden watch has been logged
}

// forbiddenPause is the time after which a forbidden watch is tried again. An API server that starts forbids what
// it grants as soon as it has read its rules.
const forbiddenPause = time.Minute

func (w *watcher) running() bool { return w.cancel != nil }

// start follows the object of that name until stop, until ctx ends, or until the watch breaks,
// which is its last sighting.
func (w *watcher) start(ctx context.Context, name string) {
	ctx, w.cancel = context.WithCancel(ctx)
	sightings := make(chan sighting)
	w.sightings = sightings
	send := func(s sighting) {
		select {
		case sightings <- s:
		case <-ctx.Done():
		}
	}
	go func() { send(sighting{err: w.follow(ctx, name, send)}) }()
}

// stop ends the watch without another sighting.
func (w *watcher) stop() {
	if w.cancel != nil {
		w.cancel()
	}
	w.cancel, w.sightings = nil, nil
}

// rest puts off the next start where err says that the watch is forbidden, and logs the first time what that means.
func (w *watcher) rest(ctx context.Context, err error, consequence string) {
	if !apierrors.IsForbidden(err) {
		return
	}
	w.from = w.elapsed() + forbiddenPause
	if !w.explained {
		klog.FromContext(ctx).Info(consequence, "error", err.Error())
	}
	w.explained = true
}

// follow lists the object and watches it from there. A list, and not a get, because the
// version of one object may be too old for a watch to begin at. The name is selected by a
// field, which lets a Role limit the rights to that name.
func (w *watcher) follow(ctx context.Context, name string, send func(sighting)) error {
	objects := cache.NewListWatchFromClient(w.client, w.resource, w.namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, name))
	began := w.elapsed()
	listing, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	list, err := objects.ListWithContext(listing, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	found, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("reading the list: %w", err)
	}
	at, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("reading the list's version: %w", err)
	}
	seen := sighting{listed: true, began: began}
	if len(found) > 0 {
		seen.object = found[0]
	}
	send(seen)
	_, err = toolswatch.Until(ctx, at.GetResourceVersion(), objects, func(event watch.Event) (bool, error) {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		send(sighting{object: event.Object, deleted: event.Type == watch.Deleted})
		return false, nil
	})
	return fmt.Errorf("watching: %w", err)
}
