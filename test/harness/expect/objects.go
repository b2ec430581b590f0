// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gcustom"
	gomegatypes "github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HaveFinalizer matches an object that carries the finalizer.
func HaveFinalizer(name string) gomegatypes.GomegaMatcher {
	return havePart("finalizers", client.Object.GetFinalizers, gomega.ContainElement(name))
}

// BeTerminating matches an object whose deletion has begun and is not complete.
func BeTerminating() gomegatypes.GomegaMatcher {
	return havePart("deletionTimestamp", client.Object.GetDeletionTimestamp, gomega.Not(gomega.BeNil()))
}

// BeGone matches the error of a Get of an object that does not exist. Another
// error, such as a refusal, is not proof of absence.
func BeGone() gomegatypes.GomegaMatcher {
	return gcustom.MakeMatcher(func(err error) (bool, error) {
		return apierrors.IsNotFound(err), nil
	}).WithTemplate("Expected the Get {{.To}} find nothing (NotFound), its error was\n{{.FormattedActual}}")
}

// BeControlledBy matches an object that has exactly one controller reference, with the UID of
// owner. The owner must have been read from the API server.
func BeControlledBy(owner client.Object) gomegatypes.GomegaMatcher {
	return havePart("controllers", func(o client.Object) ([]metav1.OwnerReference, error) {
		if owner.GetUID() == "" {
			return nil, fmt.Errorf("%s has no UID: the owner must have been read from the API server", describe(owner))
		}
		return slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()),
			func(r metav1.OwnerReference) bool { return !ptr.Deref(r.Controller, false) }), nil
	}, gomega.ConsistOf(gomega.HaveField("UID", owner.GetUID())))
}

// HaveOwnerReferences matches an object that has these owner references and no
// others, in any order. Without arguments it matches an object that has none.
func HaveOwnerReferences(exactly ...metav1.OwnerReference) gomegatypes.GomegaMatcher {
	return havePart("owner references", client.Object.GetOwnerReferences, gomega.ConsistOf(exactly))
}

// HaveCondition matches an object of any kind whose status.conditions contains the condition with
// this status and, if reasons are given, with one of them.
func HaveCondition(conditionType string, status metav1.ConditionStatus, reasons ...string) gomegatypes.GomegaMatcher {
	line := "^" + regexp.QuoteMeta(fmt.Sprintf("%s=%s ", conditionType, status))
	if len(reasons) > 0 {
		exact := make([]string, len(reasons))
		for i, reason := range reasons {
			exact[i] = regexp.QuoteMeta(reason)
		}
		line += "(" + strings.Join(exact, "|") + "): "
	}
	return havePart("conditions", func(o client.Object) ([]string, error) {
		with, err := fieldsOf[struct {
			Status struct{ Conditions []metav1.Condition }
		}](o)
		lines := make([]string, len(with.Status.Conditions))
		for i, c := range with.Status.Conditions {
			lines[i] = fmt.Sprintf("%s=%s %s: %s (generation %d)", c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration)
		}
		return lines, err
	}, gomega.ContainElement(gomega.MatchRegexp(line)))
}

// generations are those of an object and of its status.
type generations struct {
	Metadata struct{ Generation int64 }
	Status   struct{ ObservedGeneration *int64 }
}

// HaveObservedGeneration matches an object whose status is for its current spec:
// status.observedGeneration equals metadata.generation.
func HaveObservedGeneration() gomegatypes.GomegaMatcher {
	return havePart("generations", fieldsOf[generations], gomega.Satisfy(func(g generations) bool {
		return g.Status.ObservedGeneration != nil && *g.Status.ObservedGeneration == g.Metadata.Generation
	}))
}

// part is a matcher of a part of one object. Its messages name the part and the object.
type part struct {
	gomegatypes.GomegaMatcher
	Name string
}

const partMessage = `The {{.Data.Name}} of {{.Data.Of .Actual}}:
{{if .Failure}}{{.Data.FailureMessage .Actual}}{{else}}{{.Data.NegatedFailureMessage .Actual}}{{end}}`

// Of names the object, for the message.
func (part) Of(o client.Object) string { return describe(o) }

// havePart matches what a function returns of a client.Object.
func havePart(name string, of any, matcher gomegatypes.GomegaMatcher) gomegatypes.GomegaMatcher {
	p := part{gomega.WithTransform(of, matcher), name}
	return gcustom.MakeMatcher(func(actual any) (bool, error) {
		v := reflect.ValueOf(actual)
		if _, ok := actual.(client.Object); !ok || v.Kind() == reflect.Pointer && v.IsNil() {
			return false, fmt.Errorf("an object is needed, got %#v", actual)
		}
		return p.Match(actual)
	}).WithTemplate(partMessage, p)
}

// describe names an object as people do: kind, then namespace/name.
func describe(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.Indirect(reflect.ValueOf(o)).Type().Name()
	}
	return kind + " " + client.ObjectKeyFromObject(o).String()
}

// fieldsOf reads fields of an object, whatever its Go type.
func fieldsOf[T any](o client.Object) (fields T, err error) {
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		err = fmt.Errorf("reading %s: %w", describe(o), err)
	}
	return fields, err
}
