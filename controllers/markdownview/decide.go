package markdownview

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

// kind is the kind of a child.
type kind string

const (
	configMap  kind = "ConfigMap"
	deployment kind = "Deployment"
	service    kind = "Service"
)

// action is what a reconcile does with one child.
type action string

const (
	create   action = "create"   // does not exist
	keep     action = "keep"     // owned and correct
	update   action = "update"   // owned and different
	wait     action = "wait"     // terminating; created again after its deletion
	conflict action = "conflict" // exists, and is not owned
)

// step is the decision about one child.
type step struct {
	kind   kind
	name   string
	action action
	// differs is true if an applied field is not as desired.
	differs bool
	// foreign is true if the child has entries of other field managers, which an apply does not
	// remove.
	foreign bool
}

// plan is the decision of one reconcile.
type plan struct {
	// invalid is the error of an invalid spec, for which nothing is done; "" if it is valid.
	invalid string
	// steps are in the order of their execution.
	steps []step
}

// decide returns the plan for an observation. It is pure. It returns an error only if the managed
// fields of a child cannot be decoded.
func decide(o *observation) (plan, error) {
	if o.want.Invalid != "" {
		return plan{invalid: o.want.Invalid}, nil
	}
	content := step{kind: configMap, name: contentPrefix + o.view.Name, action: create}
	viewer := step{kind: deployment, name: viewerPrefix + o.view.Name, action: create}
	address := step{kind: service, name: viewerPrefix + o.view.Name, action: create}
	var err error
	if o.configMap != nil {
		d, digestErr := actualConfigMap(o.configMap)
		err = errors.Join(err, content.judge(o.view, o.configMap, d, o.want.ConfigMap, digestErr))
	}
	if o.deployment != nil {
		d, digestErr := actualDeployment(o.deployment)
		err = errors.Join(err, viewer.judge(o.view, o.deployment, d, o.want.Deployment, digestErr))
	}
	if o.service != nil {
		d, digestErr := actualService(o.service)
		err = errors.Join(err, address.judge(o.view, o.service, d, o.want.Service, digestErr))
	}
	if err != nil {
		return plan{}, err
	}
	return plan{steps: []step{content, viewer, address}}, nil
}

// judge decides the action for a child that exists. It compares only the fields that this operator
// was the last to apply: a field that another manager has changed or removed has another owner
// since, and a default of the API server has none.
func (s *step) judge(v *v1beta1.MarkdownView, live metav1.Object, is actual, want string, err error) error {
	if err == nil && is.Unreadable != "" {
		err = errors.New(is.Unreadable)
	}
	if err != nil {
		return fmt.Errorf("reading the field owners of %s %s: %w", s.kind, s.name, err)
	}
	s.differs, s.foreign = is.Applied != want, is.Foreign
	switch owner := ownerOf(v, live); {
	case owner == predecessor:
		s.action = wait
	case owner == foreign:
		s.action = conflict
	case live.GetDeletionTimestamp() != nil:
		s.action = wait
	case s.differs || s.foreign:
		s.action = update
	default:
		s.action = keep
	}
	return nil
}

// writes reports whether the plan creates or changes a child.
func (p plan) writes() bool {
	return slices.ContainsFunc(p.steps, func(s step) bool { return s.action == create || s.action == update })
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
