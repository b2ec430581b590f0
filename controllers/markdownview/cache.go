package markdownview

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	return map[client.Object]cache.ByObject{
		&v1beta1.MarkdownView{}: {Transform: func(in any) (any, error) { return slimView(in, o.DefaultViewerImage) }},
		&corev1.ConfigMap{}:     {Label: labelled, Transform: slimConfigMap},
		&appsv1.Deployment{}:    {Label: labelled, Transform: slimDeployment},
		&corev1.Service{}:       {Label: labelled, Transform: slimService},
	}
}

func slimView(in any, defaultImage string) (any, error) {
	v, ok := in.(*v1beta1.MarkdownView)
	if !ok {
		return in, nil // a tombstone, whose object has been transformed before
	}
	d, err := desiredBy(v, defaultImage)
	if err != nil {
		return nil, err
	}
	slim := &v1beta1.MarkdownView{TypeMeta: v.TypeMeta, ObjectMeta: slimMeta(v), Status: v.Status}
	slim.Spec.Replicas = v.Spec.Replicas
	return slim, setDigest(slim, d)
}

func slimConfigMap(in any) (any, error) {
	c, ok := in.(*corev1.ConfigMap)
	if !ok {
		return in, nil
	}
	d, err := actualConfigMap(c)
	if err != nil {
		return nil, err
	}
	slim := &corev1.ConfigMap{TypeMeta: c.TypeMeta, ObjectMeta: slimMeta(c)}
	return slim, setDigest(slim, d)
}

func slimDeployment(in any) (any, error) {
	live, ok := in.(*appsv1.Deployment)
	if !ok {
		return in, nil
	}
	d, err := actualDeployment(live)
	if err != nil {
		return nil, err
	}
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
	return slim, setDigest(slim, d)
}

func slimService(in any) (any, error) {
	s, ok := in.(*corev1.Service)
	if !ok {
		return in, nil
	}
	d, err := actualService(s)
	if err != nil {
		return nil, err
	}
	slim := &corev1.Service{TypeMeta: s.TypeMeta, ObjectMeta: slimMeta(s)}
	return slim, setDigest(slim, d)
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
