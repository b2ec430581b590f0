// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"errors"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
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
		err := r.stored.Get(r.T.Context(), client.ObjectKey{Namespace: "ns", Name: name}, o)
		f(o)
		if err = errors.Join(err, r.stored.Update(r.T.Context(), o, client.FieldOwner("other"))); err != nil {
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

// deleteObject returns a step that deletes an object, or ends the deletion of a terminating one.
func deleteObject(o client.Object, name string) func(*recording) {
	return func(r *recording) {
		o := o.DeepCopyObject().(client.Object)
		err := r.stored.Get(r.T.Context(), client.ObjectKey{Namespace: "ns", Name: name}, o)
		if o.GetDeletionTimestamp() != nil {
			o.SetFinalizers(nil)
			err = errors.Join(err, r.stored.Update(r.T.Context(), o))
		} else {
			err = errors.Join(err, r.stored.Delete(r.T.Context(), o))
		}
		if err != nil {
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
		err := r.stored.Get(r.T.Context(), client.ObjectKey{Namespace: "ns", Name: "viewer-book"}, d)
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: updated,
			AvailableReplicas: available,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason,
				Message: "message of the Deployment"}}}
		if err = errors.Join(err, r.stored.Status().Update(r.T.Context(), d)); err != nil {
			r.T.Fatal(err)
		}
	}
}

// refusePods returns a step after which the Deployment has fewer Pods than it should, for this reason.
func refusePods(message string) func(*recording) {
	return func(r *recording) {
		d := &appsv1.Deployment{}
		err := r.stored.Get(r.T.Context(), client.ObjectKey{Namespace: "ns", Name: "viewer-book"}, d)
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure,
			Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message})
		if err = errors.Join(err, r.stored.Status().Update(r.T.Context(), d)); err != nil {
			r.T.Fatal(err)
		}
	}
}

func annotate(key, value string) func(*recording) {
	return editView(func(v *v1beta1.MarkdownView) { metav1.SetMetaDataAnnotation(&v.ObjectMeta, key, value) })
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
			noChange, reportRollout(2, 2, 0, "ProgressDeadlineExceeded"), noChange,
			reportRollout(2, 1, 1, "ProgressDeadlineExceeded"), served,
		}},
		"rollout that is paused": before(editView(func(v *v1beta1.MarkdownView) {
			v.Spec.Markdowns["new.md"] = "n"
			v.Generation++
		}), editDeployment(func(d *appsv1.Deployment) { d.Spec.Paused = true }), reportRollout(2, 0, 2, "DeploymentPaused")),
		"rollout that is not observed yet": before(editDeployment(func(d *appsv1.Deployment) { d.Generation++ })),
		"a new default image": {[]client.Object{view(image(""))}, []func(*recording){
			noChange, served, func(r *recording) { r.Options.DefaultViewerImage = "leasehold-viewer:fixed" }, served,
		}},
		"all children are foreign": {[]client.Object{view(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "markdowns-book"}},
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "viewer-book"}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "viewer-book"}},
		}, []func(*recording){
			noChange, noChange, noChange,
			deleteObject(&corev1.Service{}, "viewer-book"),
		}},
		"the view is being deleted": {[]client.Object{view(func(v *v1beta1.MarkdownView) {
			v.DeletionTimestamp, v.Finalizers = new(metav1.NewTime(epoch)), []string{metav1.FinalizerDeleteDependents}
		})}, []func(*recording){noChange}},
		"the view is deleted": before(deleteObject(&v1beta1.MarkdownView{}, "book")),
		"new content": before(editView(func(v *v1beta1.MarkdownView) {
			v.Generation++
			v.Spec.Markdowns["a.md"] = "other"
		}), reportRollout(3, 1, 2, "ReplicaSetUpdated"), served),
		"a file is renamed": before(editView(func(v *v1beta1.MarkdownView) {
			v.Generation++
			v.Spec.Markdowns = files{"SUMMARY.md": v.Spec.Markdowns["SUMMARY.md"], "b.md": "y"}
		}), served, noChange),
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

		"drift: a key of others": before(editConfigMap(func(c *corev1.ConfigMap) { c.Data["stray.md"] = "x" }), noChange),
		"drift: a text":          before(editConfigMap(func(c *corev1.ConfigMap) { c.Data["a.md"] = "stray" }), noChange),
		"drift: replicas": before(
			editDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) }), noChange),
		"drift: a container of others": before(editDeployment(func(d *appsv1.Deployment) {
			c := &d.Spec.Template.Spec
			c.Containers = append(c.Containers, corev1.Container{Name: "miner"})
		}), noChange),
		"drift: a port in place of ours": before(editService(func(s *corev1.Service) { s.Spec.Ports[0].Protocol = "UDP" }),
			noChange),
		"drift: a selector": before(
			editService(func(s *corev1.Service) { s.Spec.Selector["app.kubernetes.io/instance"] = "x" }), noChange),
		"drift: an annotation": before(editService(func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }),
			noChange),
		"drift: an immutable ConfigMap": before(
			editConfigMap(func(c *corev1.ConfigMap) { c.Immutable = new(true) }), editView(func(v *v1beta1.MarkdownView) {
				v.Generation++
				v.Spec.Markdowns["a.md"] = "other"
			}), served, noChange),
		"drift: a label that the cache selects by": before(
			editConfigMap(func(c *corev1.ConfigMap) { c.Labels, c.Data["a.md"] = nil, "x" }), noChange),
		"paused, resumed and requested": before(annotate(v1beta1.AnnotationPaused, "true"),
			editConfigMap(func(c *corev1.ConfigMap) { c.Data["a.md"] = "stray" }),
			annotate(v1beta1.AnnotationRequestedAt, "now"), annotate(v1beta1.AnnotationPaused, "false"), noChange),
		"paused from the start": {[]client.Object{view(func(v *v1beta1.MarkdownView) {
			v.Annotations, v.Status.ObservedGeneration = map[string]string{v1beta1.AnnotationPaused: "true"}, -1
		})}, []func(*recording){noChange, annotate(v1beta1.AnnotationPaused, "false")}},
		"a live read fails": {[]client.Object{view()}, []func(*recording){
			func(r *recording) { r.errs["live get"] = deniedWrites()["a right is missing"] }, noChange,
			func(r *recording) { delete(r.errs, "live get") }, served,
		}},
		"Pods are refused": before(refusePods("pods \"viewer-book\" is forbidden: failed quota: compute: must specify limits.cpu"),
			noChange, served, refusePods("Pod \"viewer-book\" is invalid: spec")),
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
		maps.Copy(all, childScenarios(child))
	}
	maps.Copy(all, statusScenarios())
	return all
}

// childScenarios has another object in the place of a child, or errors of the writes of it.
func childScenarios(child client.Object) map[string]scenario {
	kind, name := reconcilertest.KindOf(child), "viewer-book"
	if kind == "ConfigMap" {
		name = "markdowns-book"
	}
	ownedBy := func(o client.Object, uid types.UID) {
		owner := *metav1.NewControllerRef(view(), viewKind)
		owner.UID = uid
		o.SetLabels(labelsFor(view()))
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
	}
	all := map[string]scenario{}
	for state, set := range map[string]func(client.Object){
		"foreign":                func(client.Object) {},
		"owned by a predecessor": func(o client.Object) { ownedBy(o, "former") },
		"terminating": func(o client.Object) {
			ownedBy(o, "uid")
			o.SetFinalizers([]string{"example.com/x"})
			o.SetDeletionTimestamp(new(metav1.NewTime(epoch)))
		},
	} {
		o := child.DeepCopyObject().(client.Object)
		o.SetNamespace("ns")
		o.SetName(name)
		set(o)
		all[kind+" is "+state] = scenario{[]client.Object{view(), o},
			[]func(*recording){noChange, noChange, noChange, deleteObject(child, name), noChange}}
	}
	for why, refusal := range deniedWrites() {
		all[kind+": "+why] = scenario{[]client.Object{view()}, []func(*recording){
			func(r *recording) { r.errs[kind] = refusal }, noChange, func(r *recording) { delete(r.errs, kind) },
		}}
	}
	return all
}

// statusScenarios have errors of the writes of the status.
func statusScenarios() map[string]scenario {
	failing := func(err error) func(*recording) { return func(r *recording) { r.errs["status"] = err } }
	all := map[string]scenario{}
	for why, refusal := range deniedWrites() {
		all["status: "+why] = scenario{[]client.Object{view()}, []func(*recording){failing(refusal), failing(nil)}}
	}
	return all
}
