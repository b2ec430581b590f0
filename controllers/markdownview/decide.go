package markdownview

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/apply"
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
	// bare is the child without what others have put into it; nil if that is nothing.
	bare client.Object
}

// plan is the decision of one pass.
type plan struct {
	// invalid: the spec is wrong; nothing is done until it is mended.
	invalid field.ErrorList
	// steps in the order in which they are taken.
	steps []step
}

// decide turns what was observed into what is to be done. It is pure. It fails
// only where the record of who set which field cannot be read.
func decide(o *observation) (plan, error) {
	if errs := validate(o.view); len(errs) > 0 {
		return plan{invalid: errs}, nil
	}
	content := step{kind: configMap, name: contentPrefix + o.view.Name, verb: create}
	viewer := step{kind: deployment, name: viewerPrefix + o.view.Name, verb: create}
	address := step{kind: service, name: viewerPrefix + o.view.Name, verb: create}
	if o.configMap != nil {
		owned, err := corev1ac.ExtractConfigMap(o.configMap, string(apply.FieldOwner))
		if err != nil {
			return plan{}, unreadable(content, err)
		}
		if bare := bareConfigMap(o.configMap, owned, o.want.configMap); bare != nil {
			content.bare = bare
		}
		content.judge(o, o.configMap, !equality.Semantic.DeepEqual(owned, o.want.configMap))
	}
	if o.deployment != nil {
		owned, err := appsv1ac.ExtractDeployment(o.deployment, string(apply.FieldOwner))
		if err != nil {
			return plan{}, unreadable(viewer, err)
		}
		differs := !equality.Semantic.DeepEqual(owned, o.want.deployment)
		if bare := bareDeployment(o.deployment, o.want.deployment, differs); bare != nil {
			viewer.bare = bare
		}
		viewer.judge(o, o.deployment, differs)
	}
	if o.service != nil {
		owned, err := corev1ac.ExtractService(o.service, string(apply.FieldOwner))
		if err != nil {
			return plan{}, unreadable(address, err)
		}
		if bare := bareService(o.service, o.want.service); bare != nil {
			address.bare = bare
		}
		address.judge(o, o.service, !equality.Semantic.DeepEqual(owned, o.want.service))
	}
	return plan{steps: []step{content, viewer, address}}, nil
}

// judge is the decision table for a child that exists. What differs is told by
// the fields that we were the last to apply: a field that somebody else has
// changed or removed is ours no longer, and one that the API server has defaulted
// never was.
func (s *step) judge(o *observation, live metav1.Object, differs bool) {
	s.differs = differs
	switch whose := belongs(o.view, live); {
	case whose == predecessor:
		s.verb = wait
	case whose == foreign:
		s.verb = conflict
	case live.GetDeletionTimestamp() != nil:
		s.verb = wait
	case differs || s.bare != nil:
		s.verb = update
	default:
		s.verb = keep
	}
}

// writes reports whether the plan makes or changes a child.
func (p plan) writes() bool {
	return slices.ContainsFunc(p.steps, func(s step) bool { return s.verb == create || s.verb == update })
}

func unreadable(s step, err error) error {
	return fmt.Errorf("reading who set the fields of %s %s: %w", s.kind, s.name, err)
}
