package reconciler

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/apply"
)

// ReadYourWrites records, for objects of one kind, the newest version that the API server has
// returned to this process, and reports whether a cached object is older. A reconcile of an older
// object would repeat a write, which fails, or revert a reported status.
//
// The client's own read-your-writes option is experimental. It starts an informer for every kind
// that is written, which needs the right to watch it.
//
// The zero ReadYourWrites is ready for use, and safe for concurrent use.
type ReadYourWrites struct {
	versions sync.Map // client.ObjectKey -> resourceVersion
	ended    sync.Map // client.ObjectKey -> types.UID
}

// Observe records the version that the API server returned for a write or a live read.
func (w *ReadYourWrites) Observe(o client.Object) {
	w.versions.Store(client.ObjectKeyFromObject(o), o.GetResourceVersion())
}

// Patch calls apply.Patch and records the result.
func (w *ReadYourWrites) Patch(ctx context.Context, c client.Client, changed, base client.Object) error {
	err := apply.Patch(ctx, c, changed, base)
	if err == nil {
		w.Observe(changed)
	}
	// The write that removes the last finalizer deletes the object and creates no version: the
	// response has the previous version.
	if err == nil && !changed.GetDeletionTimestamp().IsZero() && len(changed.GetFinalizers()) == 0 {
		w.ended.Store(client.ObjectKeyFromObject(changed), changed.GetUID())
	}
	return err
}

// PatchStatus calls apply.PatchStatus and records the result.
func (w *ReadYourWrites) PatchStatus(ctx context.Context, c client.Client, changed, base client.Object) error {
	err := apply.PatchStatus(ctx, c, changed, base)
	if err == nil {
		w.Observe(changed)
	}
	return err
}

// PatchStatusUnchanged calls apply.PatchStatusUnchanged and records the result.
func (w *ReadYourWrites) PatchStatusUnchanged(ctx context.Context, c client.Client, changed, base client.Object) error {
	err := apply.PatchStatusUnchanged(ctx, c, changed, base)
	if err == nil {
		w.Observe(changed)
	}
	return err
}

// Stale reports whether o, from a cache, is older than the recorded version, or was deleted by a
// write of this process. An object that was created again since is newer, because versions only
// increase.
func (w *ReadYourWrites) Stale(o client.Object) bool {
	if uid, ended := w.ended.Load(client.ObjectKeyFromObject(o)); ended && uid == o.GetUID() {
		return true
	}
	recorded, known := w.versions.Load(client.ObjectKeyFromObject(o))
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), recorded.(string))
	return err == nil && order < 0
}

// Forget drops the record of a deleted object.
func (w *ReadYourWrites) Forget(key client.ObjectKey) {
	w.versions.Delete(key)
	w.ended.Delete(key)
}
