// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/history"
)

// syncPoll is the interval at which Sync compares the watches with the stored objects.
const syncPoll = 10 * time.Millisecond

// Watcher records every version of every object of some resources that is created while it watches.
// It leaves out objects that existed before, because their history would be incomplete. It stores
// hashes in place of the values of Secrets. Its methods may be called concurrently.
type Watcher struct {
	client dynamic.Interface
	clock  clock.PassiveClock
	hash   Hash
	end    context.CancelFunc
	all    sync.WaitGroup

	resources []schema.GroupVersionResource
	mu        sync.Mutex
	older     map[types.UID]bool
	versions  []history.Version
	newest    map[types.UID]history.Version
	gaps      []error
}

// Watch starts a Watcher. client must have the permissions of an administrator, and must not be
// that of the subject. hash is required only if the resources include Secrets. The caller must call
// Stop.
func Watch(ctx context.Context, client dynamic.Interface, c clock.PassiveClock, hash Hash,
	resources ...schema.GroupVersionResource) (*Watcher, error) {
	ctx, end := context.WithCancel(ctx)
	w := &Watcher{client: client, clock: c, hash: hash, end: end, resources: resources, older: map[types.UID]bool{},
		newest: map[types.UID]history.Version{}}
	for _, r := range resources {
		if err := w.follow(ctx, r); err != nil {
			w.Stop()
			return nil, fmt.Errorf("watching %s: %w", r.Resource, err)
		}
	}
	return w, nil
}

func (w *Watcher) follow(ctx context.Context, r schema.GroupVersionResource) error {
	if w.hash == nil && resourceOf(r) == history.Secrets {
		return errors.New("their values must not be recorded, and there is no hash to replace them")
	}
	list, err := w.client.Resource(r).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	w.mu.Lock()
	for _, o := range list.Items {
		w.older[o.GetUID()] = true
	}
	w.mu.Unlock()
	stream, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(),
		&cache.ListWatch{WatchFuncWithContext: w.client.Resource(r).Watch})
	if err != nil {
		return err
	}
	w.all.Go(func() {
		for event := range stream.ResultChan() {
			w.see(resourceOf(r), event)
		}
	})
	return nil
}

func resourceOf(r schema.GroupVersionResource) history.Resource {
	return history.Resource{Group: r.Group, Resource: r.Resource}
}

func (w *Watcher) see(r history.Resource, event watch.Event) {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Error {
		// The watch cannot go on, as after a compaction: what happened since is lost.
		w.gaps = append(w.gaps, fmt.Errorf("watching %s: got %s %v", r, event.Type, event.Object))
		return
	}
	if event.Type == watch.Bookmark || w.older[object.GetUID()] {
		return
	}
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		w.gaps = append(w.gaps, fmt.Errorf("watching %s: reading the version of %s: %w", r, object.GetName(), err))
		return
	}
	if r == history.Secrets {
		hide(object, w.hash)
	}
	v := history.Version{
		Key: history.Key{Resource: r, Namespace: object.GetNamespace(), Name: object.GetName()},
		UID: object.GetUID(), RevisionRange: history.At(version), At: now, Gone: event.Type == watch.Deleted, Object: object,
	}
	w.versions = append(w.versions, v)
	w.newest[v.UID] = v
}

// Sync waits until the watches have delivered the newest version of every object that is stored
// when it is called, and the deletion of every recorded object that is not. It misses an object
// that was created and deleted before its first event arrived, so call it after the subject has
// been quiet for longer than a watch lags. It returns an error if a watch has a gap.
func (w *Watcher) Sync(ctx context.Context) error {
	for _, r := range w.resources {
		list, err := w.client.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing %s: %w", r.Resource, err)
		}
		err = wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) {
			return w.hasSeen(resourceOf(r), list)
		})
		if err != nil {
			return fmt.Errorf("waiting for the watch of %s: %w", r.Resource, err)
		}
	}
	return nil
}

func (w *Watcher) hasSeen(r history.Resource, list *unstructured.UnstructuredList) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.gaps) > 0 {
		return false, errors.Join(w.gaps...)
	}
	there := map[types.UID]bool{}
	for _, o := range list.Items {
		there[o.GetUID()] = true
		version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
		if err != nil {
			return false, fmt.Errorf("reading the version of %s: %w", o.GetName(), err)
		}
		if !w.older[o.GetUID()] && w.newest[o.GetUID()].From < version {
			return false, nil
		}
	}
	asOf, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
	if err != nil {
		return false, fmt.Errorf("reading the list's version: %w", err)
	}
	for uid, v := range w.newest {
		if v.Resource == r && !v.Gone && v.From <= asOf && !there[uid] {
			return false, nil
		}
	}
	return true, nil
}

// History returns the versions so far. Watch is not among its sources if the watch has a gap.
func (w *Watcher) History() *history.History {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &history.History{Versions: slices.Clone(w.versions)}
	if len(w.gaps) == 0 {
		h.Recorded = []history.Source{history.Watch}
	}
	h.Sort()
	return h
}

// Unsettled returns the recorded objects that change without another write: those that are being
// deleted, and workloads whose ready Pods are not available before minReadySeconds.
func (w *Watcher) Unsettled() (all []*unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.newest {
		if !v.Gone && (v.Object.GetDeletionTimestamp() != nil || waitsForPods(v.Object)) {
			all = append(all, v.Object)
		}
	}
	return all
}

func waitsForPods(workload *unstructured.Unstructured) bool {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(workload.Object, path...)
		return n
	}
	return number("spec", "minReadySeconds") > 0 && number("status", "availableReplicas") < number("status", "readyReplicas")
}

// Stop ends the watches and waits until their goroutines have returned. It is safe to call more
// than once.
func (w *Watcher) Stop() {
	w.end()
	w.all.Wait()
}
