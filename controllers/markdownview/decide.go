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

// verb is what is to be done with one child.
type verb string

const (
	create   verb = "create"   // does not exist
	keep     verb = "keep"     // ours, and as it is to be
	update   verb = "update"   // ours, and not as it is to be
	wait     verb = "wait"     // on its way out; another is made when it is gone
	conflict verb = "conflict" // exists, and is not ours
)

// step is the decision about one child.
type step struct {
	kind kind
	name string
	verb verb
	// differs: a field that we apply is not as it is to be.
	differs bool
	// foreign: others have put something into it that an apply leaves there.
	foreign bool
}

// plan is the decision of one reconcile.
type plan struct {
	// invalid is why nothing is done until the spec is mended; "" if it is valid.
	invalid string
	// steps in the order in which they are taken.
	steps []step
}

// decide turns what was observed into what is to be done. It is pure. It fails
// only where the record of field owners cannot be read.
func decide(o *observation) (plan, error) {
	if o.want.Invalid != "" {
		return plan{invalid: o.want.Invalid}, nil
	}
	content := step{kind: configMap, name: contentPrefix + o.view.Name, verb: create}
	viewer := step{kind: deployment, name: viewerPrefix + o.view.Name, verb: create}
	address := step{kind: service, name: viewerPrefix + o.view.Name, verb: create}
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

// judge is the decision table for a child that exists. Whether it differs is known by
// the fields that we were the last to apply: a field that others have changed or
// removed is ours no longer, and one that the API server has defaulted never was.
func (s *step) judge(v *v1beta1.MarkdownView, live metav1.Object, is actual, want string, err error) error {
	if err == nil && is.Unreadable != "" {
		err = errors.New(is.Unreadable)
	}
	if err != nil {
		return fmt.Errorf("reading the field owners of %s %s: %w", s.kind, s.name, err)
	}
	s.differs, s.foreign = is.Applied != want, is.Foreign
	switch whose := belongs(v, live); {
	case whose == predecessor:
		s.verb = wait
	case whose == foreign:
		s.verb = conflict
	case live.GetDeletionTimestamp() != nil:
		s.verb = wait
	case s.differs || s.foreign:
		s.verb = update
	default:
		s.verb = keep
	}
	return nil
}

// writes reports whether the plan makes or changes a child.
func (p plan) writes() bool {
	return slices.ContainsFunc(p.steps, func(s step) bool { return s.verb == create || s.verb == update })
}
