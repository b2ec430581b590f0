package markdownview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// kind is the kind of a child.
type kind string

const (
	configMap  kind = "ConfigMap"
	deployment kind = "Deployment"
	service    kind = "Service"
)

// nameOf returns the name of a child.
func nameOf(k kind, v *v1beta1.MarkdownView) string {
	if k == configMap {
		return contentPrefix + v.Name
	}
	return viewerPrefix + v.Name
}

// action is what a reconcile does with one child.
type action string

const (
	create   action = "create"   // does not exist
	keep     action = "keep"     // owned and correct
	update   action = "update"   // owned and different
	replace  action = "replace"  // owned, and immutable
	wait     action = "wait"     // terminating; created again after its deletion
	conflict action = "conflict" // exists, and is not owned
)

// step is the decision about one child.
type step struct {
	kind   kind
	name   string
	action action
	// live is the child that the decision is about.
	live client.Object
	// pruned is the child without the foreign entries that change what is served, which an apply
	// does not remove; nil if it has none.
	pruned client.Object
	// differs is true if a desired field is missing or has another value.
	differs bool
}

// plan is the decision of one reconcile.
type plan struct {
	// invalid is the error of an invalid spec, for which nothing is done; "" if it is valid.
	invalid string
	// steps are in the order of their execution.
	steps []step
}

// with returns the steps with one of these actions.
func (p plan) with(actions ...action) []step {
	var all []step
	for _, s := range p.steps {
		if slices.Contains(actions, s.action) {
			all = append(all, s)
		}
	}
	return all
}

// decide returns the plan for an observation. It is pure.
func decide(o *observation) plan {
	if errs := validate(o.view); len(errs) > 0 {
		return plan{invalid: reporting.Bounded(errs.ToAggregate().Error())}
	}
	content := step{kind: configMap, name: nameOf(configMap, o.view), action: create}
	viewer := step{kind: deployment, name: nameOf(deployment, o.view), action: create}
	address := step{kind: service, name: nameOf(service, o.view), action: create}
	if live := o.configMap; live != nil {
		want := typed[corev1.ConfigMap](o.want.configMap)
		pruned := prunedConfigMap(live, want)
		content.judge(o.view, live, pruned, o.want.configMap)
		// The API server changes no data of an immutable ConfigMap.
		if content.action == update && ptr.Deref(live.Immutable, false) &&
			(pruned != nil || !maps.Equal(live.Data, want.Data)) {
			content.action = replace
		}
	}
	if live := o.deployment; live != nil {
		want := typed[appsv1.Deployment](o.want.deployment)
		viewer.judge(o.view, live, prunedDeployment(live, want), o.want.deployment)
	}
	if live := o.service; live != nil {
		address.judge(o.view, live, prunedService(live, typed[corev1.Service](o.want.service)), o.want.service)
	}
	return plan{steps: []step{content, viewer, address}}
}

// judge decides the action for a child that exists. It compares the fields that the operator sets:
// defaults, and other fields of other clients, are no difference.
func (s *step) judge(v *v1beta1.MarkdownView, live, pruned client.Object, want any) {
	s.live, s.pruned = live, pruned
	base := live
	if pruned != nil {
		base = pruned
	}
	fields := typed[map[string]any](want)
	delete(*fields, "kind") // a typed client returns objects without it
	delete(*fields, "apiVersion")
	s.differs = !covers(*typed[any](base), any(*fields))
	switch owner := ownerOf(v, live); {
	case owner == predecessor:
		s.action = wait
	case owner == foreign:
		s.action = conflict
	case live.GetDeletionTimestamp() != nil:
		s.action = wait
	case s.differs || pruned != nil:
		s.action = update
	default:
		s.action = keep
	}
}

// typed returns the JSON of a value as a T.
func typed[T any](value any) *T {
	text, err := json.Marshal(value)
	utilruntime.Must(err) // no value here has a field that JSON cannot have
	out := new(T)
	utilruntime.Must(json.Unmarshal(text, out))
	return out
}

// covers reports whether the JSON value live has each field of want. A list of objects may have
// further elements; other values must be equal.
func covers(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		for key, value := range want {
			ok = ok && covers(live[key], value)
		}
		return ok
	case []any:
		live, ok := live.([]any)
		if _, objects := want[0].(map[string]any); !objects {
			return ok && slices.Equal(live, want)
		}
		for _, value := range want {
			ok = ok && slices.ContainsFunc(live, func(one any) bool { return covers(one, value) })
		}
		return ok
	default:
		return live == want
	}
}

// prunedConfigMap returns the ConfigMap with exactly the desired files; nil if it has no others.
func prunedConfigMap(live, want *corev1.ConfigMap) client.Object {
	isStray := len(live.BinaryData) > 0
	for name := range live.Data {
		_, wanted := want.Data[name]
		isStray = isStray || !wanted
	}
	if !isStray {
		return nil
	}
	pruned := live.DeepCopy()
	pruned.Data, pruned.BinaryData = want.Data, nil
	return pruned
}

// prunedDeployment returns the Deployment without foreign containers, volumes, mounts, ports and
// arguments; nil if it has none. Its containers and volumes become the desired ones, because they
// refer to each other.
func prunedDeployment(live, want *appsv1.Deployment) client.Object {
	pruned := live.DeepCopy()
	pod, wanted := &pruned.Spec.Template.Spec, want.Spec.Template.Spec
	isStray := strays(pod.Containers, wanted.Containers, func(c corev1.Container) string { return c.Name }) ||
		strays(pod.Volumes, wanted.Volumes, func(v corev1.Volume) string { return v.Name }) ||
		len(pod.InitContainers) > 0
	for _, c := range pod.Containers {
		viewer := wanted.Containers[0]
		isStray = isStray || len(viewer.Args) == 0 && len(c.Args) > 0 ||
			strays(c.VolumeMounts, viewer.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath }) ||
			strays(c.Ports, viewer.Ports, func(p corev1.ContainerPort) string { return fmt.Sprint(p.ContainerPort, p.Protocol) })
	}
	if !isStray {
		return nil
	}
	pod.InitContainers, pod.Containers, pod.Volumes = nil, wanted.Containers, wanted.Volumes
	return pruned
}

// prunedService returns the Service without foreign ports and selectors; nil if it has none.
func prunedService(live, want *corev1.Service) client.Object {
	if maps.Equal(live.Spec.Selector, want.Spec.Selector) && !strays(live.Spec.Ports, want.Spec.Ports,
		func(p corev1.ServicePort) string { return fmt.Sprint(p.Port, p.Protocol) }) {
		return nil
	}
	pruned := live.DeepCopy()
	pruned.Spec.Selector, pruned.Spec.Ports = want.Spec.Selector, want.Spec.Ports
	return pruned
}

// strays reports whether a list has an element whose key no wanted element has.
func strays[E any](live, wanted []E, key func(E) string) bool {
	return slices.ContainsFunc(live, func(e E) bool {
		return !slices.ContainsFunc(wanted, func(w E) bool { return key(w) == key(e) })
	})
}

// ownership is the owner of an object that has the name of a child.
type ownership string

const (
	self        ownership = "ours"
	predecessor ownership = "predecessor" // a deleted MarkdownView of the same name
	foreign     ownership = "foreign"
)

// ownerOf returns the owner of a child. It is self if the view is its controller, by UID. Labels,
// names and other owner references prove nothing, because any user can write them. The garbage
// collector deletes the children of a predecessor. The operator never changes these or foreign
// objects.
func ownerOf(v *v1beta1.MarkdownView, child metav1.Object) ownership {
	controller := metav1.GetControllerOfNoCopy(child)
	switch {
	case controller == nil || v.UID == "":
		return foreign
	case controller.UID == v.UID:
		return self
	case controller.APIVersion == viewKind.GroupVersion().String() && controller.Kind == viewKind.Kind &&
		controller.Name == v.Name:
		return predecessor
	default:
		return foreign
	}
}
