package markdownview

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// scenario is the initial objects, and the change before each reconcile.
type scenario struct {
	objects []client.Object
	steps   []func(*recording)
}

func noChange(*recording) {}

// editObject returns a step that changes an object as another client would.
func editObject[T client.Object](into T, name string, f func(T)) func(*recording) {
	return func(r *recording) {
		o := into.DeepCopyObject().(T)
		err := r.client.Get(r.T.Context(), client.ObjectKey{Namespace: "ns", Name: name}, o)
		f(o)
		if err = errors.Join(err, r.client.Update(r.T.Context(), o, client.FieldOwner("other"))); err != nil {
			r.T.Fatal(err)
		}
	}
}

func editView(f func(*v1beta1.MarkdownView)) func(*recording) {
	return editObject(&v1beta1.MarkdownView{}, "book", f)
}

func editConfigMap(f func(*corev1.ConfigMap)) func(*recording) {
	return editObject(&corev1.ConfigMap{}, "markdowns-book", f)
}

func editDeployment(f func(*appsv1.Deployment)) func(*recording) {
	return editObject(&appsv1.Deployment{}, "viewer-book", f)
}

func editService(f func(*corev1.Service)) func(*recording) {
	return editObject(&corev1.Service{}, "viewer-book", f)
}

func deleteObject(o client.Object, name string) func(*recording) {
	return func(r *recording) {
		o := o.DeepCopyObject().(client.Object)
		o.SetNamespace("ns")
		o.SetName(name)
		if err := r.client.Delete(r.T.Context(), o); err != nil {
			r.T.Fatal(err)
		}
	}
}

// reportRollout returns a step that sets the Deployment's status.
func reportRollout(replicas, updated, available int32, reason string) func(*recording) {
	return func(r *recording) {
		status := corev1.ConditionTrue
		if reason == "ProgressDeadlineExceeded" {
			status = corev1.ConditionFalse
		}
		d := &appsv1.Deployment{}
		err := r.client.Get(r.T.Context(), client.ObjectKey{Namespace: "ns", Name: "viewer-book"}, d)
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: updated,
			AvailableReplicas: available,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason,
				Message: "message of the Deployment"}}}
		if err = errors.Join(err, r.client.Status().Update(r.T.Context(), d)); err != nil {
			r.T.Fatal(err)
		}
	}
}

// deniedWrites are the errors of a write.
func deniedWrites() map[string]error {
	resource := schema.GroupResource{Resource: "x"}
	forbidden := func(message string, causes ...metav1.StatusCause) error {
		err := apierrors.NewForbidden(resource, "name", errors.New("-"))
		err.ErrStatus.Message, err.ErrStatus.Details.Causes = message, causes
		return err
	}
	fence := "ValidatingAdmissionPolicy 'leasehold-fence.leasehold.dev' with binding 'b' denied request: Pod a does " +
		"not hold the Lease"
	return map[string]error{
		"the API server fails": apierrors.NewInternalError(errors.New("etcd")),
		"a right is missing": forbidden(
			`x "name" is forbidden: User "operator" cannot patch resource "x" in API group "" in the namespace "ns"`),
		"a quota is exceeded": forbidden(
			`x "name" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`),
		"a webhook denies": forbidden(`admission webhook "w.example.com" denied the request: no`),
		"a policy denies": forbidden("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
			metav1.StatusCause{Message: "no"}),
		"the fence denies": forbidden(fence, metav1.StatusCause{Message: fence}),
		"it has changed":   apierrors.NewConflict(resource, "name", errors.New("changed")),
		"the namespace is left": forbidden("namespace ns is being terminated",
			metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}),
	}
}

func scenarios() map[string]scenario {
	served := reportRollout(2, 2, 2, "NewReplicaSetAvailable")
	before := func(steps ...func(*recording)) scenario {
		return scenario{[]client.Object{view()}, append([]func(*recording){noChange, served}, steps...)}
	}
	all := map[string]scenario{
		"rollout": {[]client.Object{view()}, []func(*recording){
			noChange, noChange, reportRollout(0, 0, 0, "ReplicaSetUpdated"), reportRollout(2, 2, 1, "ReplicaSetUpdated"), served,
			noChange, reportRollout(2, 2, 1, "NewReplicaSetAvailable"),
			reportRollout(2, 2, 0, "NewReplicaSetAvailable"), served,
		}},
		"rollout that does not come up": {[]client.Object{view()}, []func(*recording){
			noChange, reportRollout(2, 2, 0, "ProgressDeadlineExceeded"), noChange, served,
		}},
		"new content": before(editView(func(v *v1beta1.MarkdownView) {
			v.Generation++
			v.Spec.Markdowns["a.md"] = "other"
		}), reportRollout(3, 1, 2, "ReplicaSetUpdated"), served),
		"more replicas": before(editView(func(v *v1beta1.MarkdownView) {
			v.Generation++
			v.Spec.Replicas = 5
		}), reportRollout(5, 5, 2, "ReplicaSetUpdated"), reportRollout(5, 5, 5, "NewReplicaSetAvailable")),
		"a spec that is wrong and is mended": before(editView(func(v *v1beta1.MarkdownView) {
			v.Generation++
			v.Spec.ViewerImage = "UPPER"
		}), noChange, editView(func(v *v1beta1.MarkdownView) {
			v.Generation++
			v.Spec.ViewerImage = "v:2"
		})),
		"wrong from the start": {[]client.Object{view(showing(files{"a b.md": ""}), replicas(99))},
			[]func(*recording){noChange, noChange}},

		"drift: a key":  before(editConfigMap(func(c *corev1.ConfigMap) { c.Data["stray.md"] = "x" }), noChange),
		"drift: a text": before(editConfigMap(func(c *corev1.ConfigMap) { c.Data["a.md"] = "stray" }), noChange),
		"drift: binary": before(editConfigMap(func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"x": {1}} }),
			noChange),
		"drift: replicas": before(editDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) }), noChange),
		"drift: a container": before(editDeployment(func(d *appsv1.Deployment) {
			c := &d.Spec.Template.Spec
			c.Containers = append(c.Containers, corev1.Container{Name: "miner"})
		}), noChange),
		"drift: a container and the replicas": before(editDeployment(func(d *appsv1.Deployment) {
			d.Spec.Replicas = new(int32(7))
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "miner"})
		}), noChange, served),
		"drift: a volume and its mount, and a port": before(editDeployment(func(d *appsv1.Deployment) {
			pod := &d.Spec.Template.Spec
			c := &pod.Containers[0]
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "host"})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "host", MountPath: "/host"})
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 3000, Protocol: "UDP"})
		}), noChange),
		"drift: a key and a text": before(
			editConfigMap(func(c *corev1.ConfigMap) { c.Data = map[string]string{"stray.md": "x", "a.md": "stray"} }), noChange),
		"drift: a port in place of ours": before(editService(func(s *corev1.Service) { s.Spec.Ports[0].Protocol = "UDP" }),
			noChange),
		"drift: no managed fields": before(
			editService(func(s *corev1.Service) { s.ManagedFields = []metav1.ManagedFieldsEntry{{}} }), noChange),
		"drift: a port": before(editService(func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x", Port: 81, Protocol: "TCP"})
		}), noChange),
		"drift: a selector": before(
			editService(func(s *corev1.Service) { s.Spec.Selector["app.kubernetes.io/instance"] = "x" }), noChange),
		"drift: an annotation": before(editService(func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }),
			noChange),
		"drift: no ConfigMap":  before(deleteObject(&corev1.ConfigMap{}, "markdowns-book"), noChange),
		"drift: no Deployment": before(deleteObject(&appsv1.Deployment{}, "viewer-book"), noChange),
		"drift: no Service":    before(deleteObject(&corev1.Service{}, "viewer-book"), noChange),
		"drift: nothing is left": before(func(r *recording) {
			deleteObject(&corev1.ConfigMap{}, "markdowns-book")(r)
			deleteObject(&appsv1.Deployment{}, "viewer-book")(r)
			deleteObject(&corev1.Service{}, "viewer-book")(r)
		}, served),
	}
	for _, child := range []client.Object{&corev1.ConfigMap{}, &appsv1.Deployment{}, &corev1.Service{}} {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", child), "*v1.")
		name := "viewer-book"
		if kind == "ConfigMap" {
			name = "markdowns-book"
		}
		stranger := child.DeepCopyObject().(client.Object)
		stranger.SetNamespace("ns")
		stranger.SetName(name)
		former, leaving := stranger.DeepCopyObject().(client.Object), stranger.DeepCopyObject().(client.Object)
		owners := []metav1.OwnerReference{*metav1.NewControllerRef(view(), viewKind)}
		leaving.SetOwnerReferences(owners)
		leaving.SetFinalizers([]string{"example.com/x"})
		leaving.SetDeletionTimestamp(new(metav1.NewTime(epoch)))
		owners = []metav1.OwnerReference{*metav1.NewControllerRef(view(), viewKind)}
		owners[0].UID = "former"
		former.SetOwnerReferences(owners)
		for state, o := range map[string]client.Object{"foreign": stranger, "owned by a predecessor": former,
			"terminating": leaving} {
			all[kind+" is "+state] = scenario{[]client.Object{view(), o},
				[]func(*recording){noChange, noChange, func(r *recording) {
					o := o.DeepCopyObject().(client.Object)
					if len(o.GetFinalizers()) == 0 {
						deleteObject(o, name)(r)
						return
					}
					err := r.client.Get(r.T.Context(), client.ObjectKeyFromObject(o), o)
					o.SetFinalizers(nil)
					if err = errors.Join(err, r.client.Update(r.T.Context(), o)); err != nil {
						r.T.Fatal(err)
					}
				}, noChange}}
		}
		for why, refusal := range deniedWrites() {
			all[kind+": "+why] = scenario{[]client.Object{view()}, []func(*recording){
				func(r *recording) { r.answers[kind] = refusal }, noChange, func(r *recording) { delete(r.answers, kind) },
			}}
		}
	}
	for why, refusal := range deniedWrites() {
		all["status: "+why] = scenario{[]client.Object{view()}, []func(*recording){
			func(r *recording) { r.answers["status"] = refusal }, func(r *recording) { delete(r.answers, "status") },
		}}
	}
	return all
}
