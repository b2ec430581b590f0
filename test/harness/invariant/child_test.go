// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// lifeOf returns a Thing with one part, which is deleted before the Thing or never.
func lifeOf(child *unstructured.Unstructured, stays bool) *history.History {
	end := ends("a", child)
	if stays {
		end = all()
	}
	return play(writes("alice", thing()), writes("a", thing(held)), writes("a", child), writes("a", thing(held, ready)),
		rests("made"), writes("alice", thing(held, ready, leaving)), end, ends("a", thing(held, ready, leaving)), rests("gone"))
}

// A child is identified by its mark: finalizer-order requires its deletion before the removal of the finalizer
// only if it belongs to the Thing ns/t with UID u1.
func TestFinalizerOrder_IdentifiesChildren(t *testing.T) {
	annotated := func(value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{madeFor: value}) }
	}
	labeled := func(value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{madeFor: value}) }
	}
	elsewhere := func(o *unstructured.Unstructured) { o.SetNamespace("other") }
	byAnnotation, byLabel, byReference := invariant.Child{Annotation: madeFor}, invariant.Child{Label: madeFor},
		invariant.Child{}
	for name, tc := range map[string]struct {
		child invariant.Child
		marks []func(*unstructured.Unstructured)
		its   bool
	}{
		"Controller":             {byReference, nil, true},
		"OwnerWithoutControl":    {byReference, []func(*unstructured.Unstructured){owned("u9", "u1")}, true},
		"OtherOwner":             {byReference, []func(*unstructured.Unstructured){owned("u9")}, false},
		"AnnotationUID":          {byAnnotation, []func(*unstructured.Unstructured){annotated("u1")}, true},
		"AnnotationOtherUID":     {byAnnotation, []func(*unstructured.Unstructured){annotated("u9")}, false},
		"AnnotationQualified":    {byAnnotation, []func(*unstructured.Unstructured){annotated("ns/t"), elsewhere}, true},
		"AnnotationOtherSpace":   {byAnnotation, []func(*unstructured.Unstructured){annotated("other/t"), elsewhere}, false},
		"AnnotationName":         {byAnnotation, []func(*unstructured.Unstructured){annotated("t")}, true},
		"NameInAnotherNamespace": {byAnnotation, []func(*unstructured.Unstructured){annotated("t"), elsewhere}, false},
		"LabelUID":               {byLabel, []func(*unstructured.Unstructured){labeled("u1")}, true},
		"LabelName":              {byLabel, []func(*unstructured.Unstructured){labeled("t")}, true},
		"LabelIsNoAnnotation":    {byAnnotation, []func(*unstructured.Unstructured){labeled("u1")}, false},
		"NoLabel":                {byLabel, nil, false},
	} {
		tc.child.Resource, tc.child.Awaited = parts, true
		change := func(o *invariant.Contract) {
			o.Kinds[0].Children, o.Kinds[0].External = []invariant.Child{tc.child}, false
		}
		left := wantHeld
		if tc.its {
			left = wantBroken
		}
		child := part("p", "p1", tc.marks...)
		check(t, invariant.FinalizerOrder, table{
			name + "/Stays": left(lifeOf(child, true)),
			name + "/Ends":  wantHeld(lifeOf(child, false)),
		}.under(change))
	}
}

// Of two Things with one name, one after the other, the child belongs to the second.
func TestFinalizerOrder_NameOfTwoObjects(t *testing.T) {
	mark := func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{madeFor: "t"}) }
	second := func(o *unstructured.Unstructured) { o.SetUID("u2") }
	h := play(
		writes("alice", thing(held)), rests("made"), ends("a", thing(held, leaving)), rests("gone"),
		writes("alice", thing(second)), writes("a", thing(second, held)), writes("a", part("p", "p1", mark)), rests("again"),
	)
	check(t, invariant.FinalizerOrder,
		table{"SecondHasIt": wantHeld(h).under(func(o *invariant.Contract) {
			o.Kinds[0].Children = []invariant.Child{{Resource: parts, Label: madeFor}}
		})})
}

// An operator with an old cache hands the second Thing's child over to the first, which is gone.
func TestFinalizerOrder_ChildOfTwoObjects(t *testing.T) {
	second := func(o *unstructured.Unstructured) { o.SetUID("u2") }
	handedOver := func(first string) *history.History {
		return play(
			writes("alice", thing()), writes("a", thing(held)), rests("made"), ends("a", thing(held, leaving)), rests("gone"),
			writes("alice", thing(second)), writes("a", thing(second, held)), writes("a", part("p", "p1", owned(first))),
			writes("a", part("p", "p1", owned("u1"))), rests("again"),
		)
	}
	check(t, invariant.FinalizerOrder, table{
		"MadeForSecond": wantHeld(handedOver("u2")),
		"MadeForFirst":  wantBroken(handedOver("u1")),
	})
}
