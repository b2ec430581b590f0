// Package apply writes children by server-side apply such that nothing is ever
// changed that was not seen first: what is to be created must not exist, what
// is to be changed must still be the object, at the version, that was judged.
//
// Force is safe under these preconditions, and only under them: ownership was
// decided on exactly the object that the API server is about to change.
package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the field manager of every write of the operator.
const FieldOwner = client.FieldOwner("leasehold")

// absent is a resourceVersion that no stored object can have: etcd gives
// revision 1 to the empty store. An apply that carries it succeeds only where
// there is no object yet; where there is one the API server answers Conflict.
// Server-side apply has no other way to say "must not exist".
const absent = "1"

// otherUID is in the message of the Conflict that a failed UID precondition gives. The
// API server has no other sign for it.
const otherUID = "Precondition failed: UID in precondition: "

// Configuration is an apply configuration of a kind with metadata.
type Configuration[T any] interface {
	runtime.ApplyConfiguration
	WithUID(types.UID) T
	WithResourceVersion(string) T
}

// Create applies desired as a new object. It returns a Conflict error when an
// object of that name exists, whoever made it, and leaves that one untouched.
// On success desired holds what the API server stored.
func Create[T Configuration[T]](ctx context.Context, c client.Client, desired T) error {
	return c.Apply(ctx, desired.WithResourceVersion(absent), FieldOwner, client.ForceOwnership)
}

// TryCreate reports by its error whether the API server would refuse to create o. The
// request is a dry run and changes nothing. o has a generateName, so that an object of
// its name is no obstacle.
func TryCreate(ctx context.Context, c client.Client, o client.Object) error {
	return c.Create(ctx, o, client.DryRunAll, FieldOwner)
}

// Update applies desired over live. It returns a Conflict error when the stored
// object is no longer live, by UID or by version, and changes nothing then.
func Update[T Configuration[T]](ctx context.Context, c client.Client, live metav1.Object, desired T) error {
	desired = desired.WithUID(live.GetUID()).WithResourceVersion(live.GetResourceVersion())
	return c.Apply(ctx, desired, FieldOwner, client.ForceOwnership)
}

// Patch writes what changed differs in from base, for what apply cannot say:
// that a field is to go, whoever set it. It returns a Conflict error when the
// stored object is no longer at base's version. changed becomes what is stored.
func Patch(ctx context.Context, c client.Client, changed, base client.Object) error {
	return c.Patch(ctx, changed, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}), FieldOwner)
}

// PatchStatus replaces base's status by that of changed, and compares nothing but the
// UID and the status: an edit of the spec or of a label refuses no report, as a status
// states which generation it is about. It returns a Conflict error when the stored
// object is another one or has another status. changed becomes what is stored, and its
// spec may then be newer than base's.
func PatchStatus(ctx context.Context, c client.Client, changed, base client.Object) error {
	swap, err := statusSwap(changed, base)
	if err != nil {
		return err
	}
	err = c.Status().Patch(ctx, changed, client.RawPatch(types.JSONPatchType, swap), FieldOwner)
	if !apierrors.IsInvalid(err) {
		return err
	}
	// The API server reports a failed comparison as Invalid, and not which one failed. A
	// stored status may also differ in what our types cannot show: fields that a newer
	// release has written. The version then decides, and a merge patch keeps such fields.
	return PatchStatusUnchanged(ctx, c, changed, base)
}

// PatchStatusUnchanged is PatchStatus for what is recorded before an action that cannot be
// undone. It returns a Conflict error when the stored object is no longer at base's version.
func PatchStatusUnchanged(ctx context.Context, c client.Client, changed, base client.Object) error {
	return c.Status().Patch(ctx, changed, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}), FieldOwner)
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// statusSwap is the JSON patch that replaces base's status by that of changed, if
// the stored object has base's UID and status.
func statusSwap(changed, base client.Object) ([]byte, error) {
	before, err := statusOf(base)
	if err != nil {
		return nil, err
	}
	after, err := statusOf(changed)
	if err != nil {
		return nil, err
	}
	swap, err := json.Marshal([]operation{
		{"test", "/metadata/uid", base.GetUID()},
		{"test", "/status", before},
		{"add", "/status", after},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return swap, nil
}

// statusOf returns the status of an object in JSON, null if there is none. A comparison
// with null succeeds where the API server has stored no status.
func statusOf(o client.Object) (json.RawMessage, error) {
	encoded, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", o.GetName(), err)
	}
	var fields struct {
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", o.GetName(), err)
	}
	return fields.Status, nil
}

// Delete deletes live, and only it: an object that was made anew under the same
// name is left alone. An object that is gone already is a success.
func Delete(ctx context.Context, c client.Client, live client.Object) error {
	uid := live.GetUID()
	return gone(c.Delete(ctx, live, client.Preconditions{UID: &uid}))
}

// DeleteUnchanged is Delete for an object that may belong to another owner since it was
// judged. It returns a Conflict error when the stored object is no longer at live's version.
func DeleteUnchanged(ctx context.Context, c client.Client, live client.Object) error {
	uid, version := live.GetUID(), live.GetResourceVersion()
	return gone(c.Delete(ctx, live, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// gone turns the errors of a delete that mean that the object is gone into none.
func gone(err error) error {
	// Another UID under the name means that live itself is gone. Any other conflict means
	// that the object may still be there.
	if apierrors.IsConflict(err) && strings.Contains(err.Error(), otherUID) {
		return nil
	}
	return client.IgnoreNotFound(err)
}
