// SPDX-License-Identifier: Apache-2.0

// Package apply writes children by server-side apply, and never changes an object that the operator
// has not read before. An object to create must not exist. An object to update must still have the
// UID and the version that the decision was based on.
//
// Forced ownership of fields is safe only under these preconditions: the decision about the
// ownership was made on exactly the version that the API server changes.
package apply

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the field manager of every write of the operator.
const FieldOwner = client.FieldOwner("leasehold")

// absent is a resourceVersion that no stored object can have, because etcd gives revision 1 to the
// empty store. An apply with it succeeds only if no object exists; otherwise the API server
// responds with Conflict. Server-side apply has no other precondition for "must not exist".
const absent = "1"

// otherUID is a part of the Conflict's message after a failed UID precondition. The API server
// reports it in no other way.
const otherUID = "Precondition failed: UID in precondition: "

// Configuration is an apply configuration of a kind with metadata.
type Configuration[T any] interface {
	runtime.ApplyConfiguration
	WithUID(types.UID) T
	WithResourceVersion(string) T
}

// Create applies desired as a new object. If an object with the name exists, Create returns a
// Conflict error and does not change the object. On success desired has the stored content.
func Create[T Configuration[T]](ctx context.Context, c client.Client, desired T) error {
	return c.Apply(ctx, desired.WithResourceVersion(absent), FieldOwner, client.ForceOwnership)
}

// Update applies desired over live. If the stored object has another UID or version than live,
// Update returns a Conflict error and changes nothing.
func Update[T Configuration[T]](ctx context.Context, c client.Client, live metav1.Object, desired T) error {
	desired = desired.WithUID(live.GetUID()).WithResourceVersion(live.GetResourceVersion())
	return c.Apply(ctx, desired, FieldOwner, client.ForceOwnership)
}

// Overwrite applies desired over live at any version, so a client that changes the object all the
// time cannot prevent it. It serves for an object of a reserved name, whose content does not matter.
// It repeats what may pass: a Conflict, an error of etcd. It fails if the stored UID is another than live's.
func Overwrite[T Configuration[T]](ctx context.Context, c client.Client, live metav1.Object, desired T) error {
	passes := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInternalError(err) }
	return retry.OnError(retry.DefaultRetry, passes, func() error {
		return c.Apply(ctx, desired.WithUID(live.GetUID()), FieldOwner, client.ForceOwnership)
	})
}

// Patch writes the difference between base and changed. It can remove a field that another manager
// owns, which an apply cannot. It returns a Conflict error if the stored object is no longer at
// base's version. On success changed has the stored content.
func Patch(ctx context.Context, c client.Client, changed, base client.Object) error {
	return c.Patch(ctx, changed, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}), FieldOwner)
}

// PatchStatus replaces base's status with that of changed. It returns a Conflict error if the stored
// object is no longer at base's version. On success changed has the stored content.
func PatchStatus(ctx context.Context, c client.Client, changed, base client.Object) error {
	return c.Status().
		Patch(ctx, changed, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}), FieldOwner)
}

// Delete deletes live. It does not delete an object that was created again with the same name. A
// missing object is a success.
func Delete(ctx context.Context, c client.Client, live client.Object, opts ...client.DeleteOption) error {
	uid := live.GetUID()
	return ignoreDeleted(c.Delete(ctx, live, append(opts, client.Preconditions{UID: &uid})...))
}

// Remove deletes live with its finalizers, at any version. It serves where an object that exists
// grants rights, even while it is terminating. If live has finalizers, Remove first sends a patch that removes them.
// RBAC permits that without the right to bind the role of a binding, because the patch changes only fields of the
// garbage collector. It also removes the managed fields, as the API server could not add an entry to an object at
// etcd's size limit.
//
// Another client may add a finalizer between the two requests. The object then gets a deletion
// timestamp, after which the API server refuses new finalizers, so the next Remove succeeds.
func Remove(ctx context.Context, c client.Client, live client.Object, opts ...client.DeleteOption) error {
	if len(live.GetFinalizers()) > 0 {
		body := fmt.Appendf(nil, `{"metadata":{"finalizers":null,"managedFields":[{}],"uid":%q}}`, live.GetUID())
		stripped := live.DeepCopyObject().(client.Object)
		patch := client.RawPatch(types.MergePatchType, body)
		if err := ignoreDeleted(c.Patch(ctx, stripped, patch, FieldOwner)); err != nil {
			return fmt.Errorf("removing finalizers: %w", err)
		}
	}
	return Delete(ctx, c, live, opts...)
}

// DeleteUnchanged deletes live if its owner cannot have changed since the decision. It returns a
// Conflict error if the stored object is no longer at live's version.
func DeleteUnchanged(ctx context.Context, c client.Client, live client.Object, opts ...client.DeleteOption) error {
	uid, version := live.GetUID(), live.GetResourceVersion()
	return ignoreDeleted(c.Delete(ctx, live, append(opts, client.Preconditions{UID: &uid, ResourceVersion: &version})...))
}

// ignoreDeleted returns nil for errors of a deletion that mean that the object does not exist.
func ignoreDeleted(err error) error {
	// Another UID means that live itself does not exist any more. After any other conflict the
	// object may still exist.
	if apierrors.IsConflict(err) && strings.Contains(err.Error(), otherUID) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
