// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
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
	replace  action = "replace"  // owned and different, and immutable
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
	// differences are the paths of the fields to update.
	differences []string
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
	if o.configMap != nil {
		content.judge(o.view, o.configMap, o.want.configMap)
		if content.action == update && ptr.Deref(o.configMap.Immutable, false) {
			content.action = replace
		}
	}
	if o.deployment != nil {
		viewer.judge(o.view, o.deployment, o.want.deployment)
		if more := undesired(o.deployment, o.want.deployment); viewer.action == keep && len(more) > 0 {
			viewer.action, viewer.differences = update, more
		}
	}
	if o.service != nil {
		address.judge(o.view, o.service, o.want.service)
	}
	return plan{steps: []step{content, viewer, address}}
}

// undesired returns the optional fields of a Deployment that the spec does not ask for any more. An apply removes
// them if the operator has set them.
func undesired(live *appsv1.Deployment, want *appsv1ac.DeploymentApplyConfiguration) []string {
	const path = "spec.template.spec."
	var list []string
	pod, wanted := live.Spec.Template.Spec, want.Spec.Template.Spec
	security := ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
	if wanted.SecurityContext.RunAsUser == nil && security.RunAsUser != nil {
		list = append(list, path+"securityContext.runAsUser")
	}
	for _, c := range pod.Containers {
		if c.Name == *wanted.Containers[0].Name && len(wanted.Containers[0].Args) == 0 && len(c.Args) > 0 {
			list = append(list, path+"containers["+c.Name+"].args")
		}
	}
	return list
}

// judge decides the action for a child that exists. It compares the fields that the operator sets:
// defaults, and what other clients add, are no difference.
func (s *step) judge(v *v1beta1.MarkdownView, live client.Object, want any) {
	s.live = live
	fields := fieldsOf(want)
	delete(fields, "kind") // a typed client returns objects without it
	delete(fields, "apiVersion")
	switch owner := ownerOf(v, live); {
	case owner == foreign:
		s.action = conflict
	case owner == predecessor, live.GetDeletionTimestamp() != nil:
		s.action = wait
	default:
		s.action = keep
		for _, path := range differences(fieldsOf(live), fields) {
			s.action, s.differences = update, append(s.differences, strings.TrimPrefix(path, "."))
		}
	}
}

// fieldsOf returns an object as JSON has it.
func fieldsOf(object any) map[string]any {
	text, err := json.Marshal(object)
	utilruntime.Must(err) // no object here has a field that JSON cannot have
	var fields map[string]any
	utilruntime.Must(json.Unmarshal(text, &fields))
	return fields
}

// differences returns the paths of the fields of the JSON value want that live does not have, such as
// .data[a.md] and .spec.template.spec.containers[viewer].image. A list of objects may have further
// elements; other values must be equal.
func differences(live, want any) []string {
	var paths []string
	var same bool
	switch want := want.(type) {
	case map[string]any:
		var fields map[string]any
		fields, same = live.(map[string]any)
		for key, value := range want {
			for _, path := range differences(fields[key], value) {
				name := "." + key
				if strings.ContainsAny(key, "./") {
					name = "[" + key + "]"
				}
				paths = append(paths, name+path)
			}
		}
		slices.Sort(paths)
	case []any:
		list, _ := live.([]any)
		if _, objects := want[0].(map[string]any); !objects {
			same = slices.Equal(list, want)
			break
		}
		same = true
		for _, value := range want {
			name := value.(map[string]any)["name"]
			named := func(one any) bool { return one.(map[string]any)["name"] == name }
			if slices.ContainsFunc(list, func(one any) bool { return named(one) && len(differences(one, value)) == 0 }) {
				continue
			}
			i := slices.IndexFunc(list, named)
			if name == nil || i < 0 {
				same = false // the list is reported as a whole
				continue
			}
			for _, path := range differences(list[i], value) {
				paths = append(paths, fmt.Sprintf("[%s]%s", name, path))
			}
		}
	default:
		same = live == want
	}
	if !same && len(paths) == 0 {
		return []string{""}
	}
	return paths
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
