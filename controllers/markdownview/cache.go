package markdownview

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/internal/slimcache"
)

// CacheByObject limits what the cache stores of views and their children to the fields that a
// reconcile reads when it changes nothing: metadata, status and a digest. That is about 2 KiB each,
// whatever users write into them. Of the children's kinds it stores only objects with the
// operator's label. The options are part of the digest of a view.
func CacheByObject(o Options) map[client.Object]cache.ByObject {
	labelled := labels.SelectorFromSet(labels.Set{v1beta1.LabelManagedBy: v1beta1.ManagedByValue})
	digestOfView := func(v *v1beta1.MarkdownView) (desired, error) { return desiredBy(v, o.DefaultViewerImage) }
	return map[client.Object]cache.ByObject{
		&v1beta1.MarkdownView{}: {Transform: reduce(digestOfView, slimView)},
		&corev1.ConfigMap{}:     {Label: labelled, Transform: reduce(actualConfigMap, slimConfigMap)},
		&appsv1.Deployment{}:    {Label: labelled, Transform: reduce(actualDeployment, slimDeployment)},
		&corev1.Service{}:       {Label: labelled, Transform: reduce(actualService, slimService)},
	}
}

// reduce returns a transform to slim objects with the digests of the complete ones. It does not
// change a tombstone, whose object has been transformed before.
func reduce[T metav1.Object, D any](digest func(T) (D, error), slim func(T) T) toolscache.TransformFunc {
	return func(in any) (any, error) {
		o, ok := in.(T)
		if !ok {
			return in, nil
		}
		d, err := digest(o)
		if err != nil {
			return nil, err
		}
		out := slim(o)
		return out, setDigest(out, d)
	}
}

func slimView(v *v1beta1.MarkdownView) *v1beta1.MarkdownView {
	slim := &v1beta1.MarkdownView{TypeMeta: v.TypeMeta, ObjectMeta: slimMeta(v), Status: v.Status}
	slim.Spec.Replicas = v.Spec.Replicas
	return slim
}

func slimConfigMap(c *corev1.ConfigMap) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: c.TypeMeta, ObjectMeta: slimMeta(c)}
}

func slimDeployment(live *appsv1.Deployment) *appsv1.Deployment {
	slim := &appsv1.Deployment{TypeMeta: live.TypeMeta, ObjectMeta: slimMeta(live), Status: appsv1.DeploymentStatus{
		ObservedGeneration: live.Status.ObservedGeneration,
		Replicas:           live.Status.Replicas,
		UpdatedReplicas:    live.Status.UpdatedReplicas,
		AvailableReplicas:  live.Status.AvailableReplicas,
	}}
	for _, c := range live.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			slim.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: c.Type, Status: c.Status, Reason: reporting.Bounded(c.Reason), Message: reporting.Bounded(c.Message)}}
		}
	}
	return slim
}

func slimService(s *corev1.Service) *corev1.Service {
	return &corev1.Service{TypeMeta: s.TypeMeta, ObjectMeta: slimMeta(s)}
}

// slimMeta returns the metadata that reconciles read of views and children. It is never written
// back: the status has a patch of its own, and children are applied.
func slimMeta(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(),
		CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(),
		OwnerReferences: slimcache.Owners(o),
	}
}
