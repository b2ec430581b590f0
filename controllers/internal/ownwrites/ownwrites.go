// Package ownwrites tells whether a cache shows an object at least as new as
// this process's own last write to it, or its last read past the cache. A reconcile
// with an older one would repeat what has been done, and be refused, or take back what
// it has reported.
//
// The client's own read-your-writes option is not used: it is experimental, and
// it starts an informer, and so asks for rights, for every kind that is written.
package ownwrites

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/apply"
)

// Floor remembers, for objects of one kind, the newest version that the
// API server has answered with. The zero Floor is ready for use, from several goroutines.
type Floor struct {
	versions sync.Map // client.ObjectKey -> resourceVersion
	ended    sync.Map // client.ObjectKey -> types.UID
}

// Saw notes what the API server answered to a write, or to a read past the cache.
func (f *Floor) Saw(o client.Object) {
	f.versions.Store(client.ObjectKeyFromObject(o), o.GetResourceVersion())
}

// Patch is apply.Patch for an object whose writes are remembered.
func (f *Floor) Patch(ctx context.Context, c client.Client, changed, base client.Object) error {
	err := apply.Patch(ctx, c, changed, base)
	if err == nil {
		f.Saw(changed)
	}
	// The write that takes the last finalizer off is the object's end, and makes no
	// version: the answer has the one from before.
	if err == nil && !changed.GetDeletionTimestamp().IsZero() && len(changed.GetFinalizers()) == 0 {
		f.ended.Store(client.ObjectKeyFromObject(changed), changed.GetUID())
	}
	return err
}

// PatchStatus is apply.PatchStatus for an object whose writes are remembered.
func (f *Floor) PatchStatus(ctx context.Context, c client.Client, changed, base client.Object) error {
	err := apply.PatchStatus(ctx, c, changed, base)
	if err == nil {
		f.Saw(changed)
	}
	return err
}

// PatchStatusUnchanged is apply.PatchStatusUnchanged for an object whose writes are remembered.
func (f *Floor) PatchStatusUnchanged(ctx context.Context, c client.Client, changed, base client.Object) error {
	err := apply.PatchStatusUnchanged(ctx, c, changed, base)
	if err == nil {
		f.Saw(changed)
	}
	return err
}

// Behind reports whether o, from a cache, is older than the last write, or that was
// its end. An object that was made anew since is newer, as versions only grow.
func (f *Floor) Behind(o client.Object) bool {
	if uid, ended := f.ended.Load(client.ObjectKeyFromObject(o)); ended && uid == o.GetUID() {
		return true
	}
	written, known := f.versions.Load(client.ObjectKeyFromObject(o))
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), written.(string))
	return err == nil && order < 0
}

// Forget drops what is known of an object that is gone.
func (f *Floor) Forget(key client.ObjectKey) {
	f.versions.Delete(key)
	f.ended.Delete(key)
}
