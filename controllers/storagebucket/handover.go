package storagebucket

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/internal/slimcache"
	"leasehold.dev/controllers/storagebucket/s3"
)

// handover is an administrator's decision about a bucket of another StorageBucket.
type handover int

const (
	handoverNone handover = iota
	// handoverGiven means that this StorageBucket becomes the owner.
	handoverGiven
	// handoverVoid means that the owner still exists, so the annotation has no effect.
	handoverVoid
)

// handover reads whether an administrator handed over the bucket with that owner tag. The
// decision is an annotation of the Namespace, which users of the namespace cannot change.
// It is read from the API server, since the cache may not have it yet, or still have it.
func (r *Reconciler) handover(ctx context.Context, b *v1beta1.StorageBucket, mark string) (handover, error) {
	if mark == "" {
		return handoverNone, nil
	}
	ns, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Name: b.Namespace}, &corev1.Namespace{})
	if err != nil {
		return handoverNone, fmt.Errorf("reading namespace %s: %w", b.Namespace, err)
	}
	if ns == nil || !ns.DeletionTimestamp.IsZero() ||
		ns.Annotations[v1beta1.AnnotationBucketHandoverPrefix+mark] != b.Name {
		return handoverNone, nil
	}
	var list v1beta1.StorageBucketList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return handoverNone, fmt.Errorf("listing storage buckets: %w", err)
	}
	for i := range list.Items {
		if string(list.Items[i].UID) == mark {
			return handoverVoid, nil
		}
	}
	return handoverGiven, nil
}

// slimNamespace keeps the annotations that hand buckets over, in addition to those of other
// controllers. Users of a namespace cannot change them, so they cannot fill the cache.
func slimNamespace(in any) (any, error) {
	ns, is := in.(*corev1.Namespace)
	if !is {
		return slimcache.Trim(in)
	}
	handovers := maps.Clone(ns.Annotations)
	maps.DeleteFunc(handovers, func(key, _ string) bool {
		return !strings.HasPrefix(key, v1beta1.AnnotationBucketHandoverPrefix)
	})
	out, err := slimcache.Trim(ns)
	maps.Copy(ns.Annotations, handovers)
	return out, err
}

// handedOver returns the StorageBuckets that get a bucket by an annotation of their Namespace, and
// makes them due at once: the next probe can be a period away. It omits Ready ones, because
// annotations may stay after the handover.
func (r *Reconciler) handedOver(ctx context.Context, ns client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for key, name := range ns.GetAnnotations() {
		if !strings.HasPrefix(key, v1beta1.AnnotationBucketHandoverPrefix) {
			continue
		}
		object := client.ObjectKey{Namespace: ns.GetName(), Name: name}
		// A map function cannot return an error. If the read fails, the first probe of a new
		// StorageBucket reads the annotation.
		b, err := reconciler.Get(ctx, r.Client, object, &v1beta1.StorageBucket{})
		if err != nil {
			log.FromContext(ctx).Error(err, "reading a storage bucket", "object", object)
			continue
		}
		if b != nil && !meta.IsStatusConditionTrue(b.Status.Conditions, v1beta1.ConditionReady) {
			r.states.trigger(object)
			requests = append(requests, reconcile.Request{NamespacedName: object})
		}
	}
	return requests
}

// contend takes over a bucket with the owner tag of another StorageBucket if an
// administrator handed it over. Otherwise it reports a conflict.
func (r *Reconciler) contend(ctx context.Context, b *v1beta1.StorageBucket, c *s3.Client, mark string) (action, error) {
	decision, err := r.handover(ctx, b, mark)
	switch {
	case err != nil:
		return action{}, err
	case decision == handoverVoid:
		return leftAlone(fmt.Sprintf("namespace %s hands the bucket over, but the StorageBucket with the UID %s exists in this cluster, "+
			"so the bucket is left alone; choose another bucketName, or delete that StorageBucket under deletionPolicy Retain first", b.Namespace, mark)), nil
	case decision == handoverNone:
		return conflicting(b, mark), nil
	}
	if err := r.declare(ctx, b, "taking over the bucket"); err != nil {
		return action{}, err
	}
	if err := c.ReplaceTag(ctx, v1beta1.BucketTagOwner, mark, string(b.UID)); err != nil {
		return failing(ctx, err)
	}
	return action{provisioning: v1beta1.BucketCreated, verdict: new(s3.Succeeded()), events: []reporting.PendingEvent{
		reporting.Normal(v1beta1.EventBucketHandedOver, "TakeOver",
			"took over bucket %s from the StorageBucket with the UID %s", b.Spec.BucketName, mark),
	}}, nil
}

// conflicting returns the action for a bucket that the operator does not own. The message
// has a command to copy. It omits an owner tag that is not a valid annotation name, since
// that could inject shell code.
func conflicting(b *v1beta1.StorageBucket, mark string) action {
	key := v1beta1.AnnotationBucketHandoverPrefix + mark
	if len(validation.IsQualifiedName(key)) > 0 {
		return leftAlone(fmt.Sprintf("the bucket exists and does not carry the mark of this StorageBucket, so it is left alone; choose another bucketName, "+
			"look at it with managementPolicy Observe, or hand it over by the tag %s=%s", v1beta1.BucketTagOwner, b.UID))
	}
	return leftAlone(fmt.Sprintf("the bucket carries the mark of the StorageBucket with the UID %s, so it is left alone; choose another bucketName, "+
		"or look at it with managementPolicy Observe; if this StorageBucket was restored and had that UID in the backup, "+
		"an administrator hands the bucket over: kubectl annotate namespace %s %s=%s", mark, b.Namespace, key, b.Name))
}

func leftAlone(message string) action {
	return action{verdict: &s3.Verdict{Reason: v1beta1.ReasonBucketConflict, Message: message}}
}
