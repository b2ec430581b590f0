// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// Child is a resource that the operator makes objects of, for a kind.
type Child struct {
	history.Resource
	// Annotation is the annotation in which a child names its owner: by UID, by namespace/name,
	// or by name if the owner is cluster-scoped or in the child's namespace.
	Annotation string `json:"annotation,omitempty"`
	// Label is a label that does the same. Without both, an owner reference does.
	Label string `json:"label,omitempty"`
	// Controlled: the child has a controlling owner reference whenever the operator writes it.
	Controlled bool `json:"controlled,omitempty"`
	// Awaited: the owner's finalizer stays until the child is gone.
	Awaited bool `json:"awaited,omitempty"`
	// Settled are paths in the child's status, such as status.readyReplicas, that have their
	// final value whenever the owner is Ready, as the spec has.
	Settled []string `json:"settled,omitempty"`
}

// Validate finds what cannot be meant.
func (c Child) Validate() error {
	switch {
	case c.Resource.Resource == "":
		return errors.New("resource: is required, in the plural as in URLs")
	case c.Annotation != "" && c.Label != "":
		return errors.New("annotation and label: name one of them; it identifies the owner")
	}
	return nil
}

// mark returns the text with which a child identifies its owner; "" without one.
func (c Child) mark(v history.Version) string {
	switch {
	case v.Object == nil:
		return ""
	case c.Annotation != "":
		return v.Object.GetAnnotations()[c.Annotation]
	case c.Label != "":
		return v.Object.GetLabels()[c.Label]
	}
	if ref := metav1.GetControllerOf(v.Object); ref != nil {
		return string(ref.UID)
	}
	return ""
}

// ownerOf is the object of a kind that a child was made for, or nil.
func (c Child) ownerOf(index *history.Index, kind history.Resource, v history.Version) *history.Lifetime {
	marks := []string{c.mark(v)}
	if c.Annotation == "" && c.Label == "" && v.Object != nil {
		for _, ref := range v.Object.GetOwnerReferences() {
			marks = append(marks, string(ref.UID))
		}
	}
	for _, mark := range marks {
		if owner := index.Lifetime(types.UID(mark)); mark != "" && owner != nil && owner.Resource == kind {
			return owner
		}
	}
	if c.Annotation == "" && c.Label == "" {
		return nil
	}
	// A name may have belonged to several objects, one after another: the last one that there was.
	var last *history.Lifetime
	for _, owner := range index.Lifetimes(kind) {
		if isNamed(owner.Key, marks[0], v.Namespace) && len(owner.Versions) > 0 &&
			!v.Before(owner.Versions[0].RevisionRange) {
			last = owner
		}
	}
	return last
}

// isNamed reports whether the mark of a child in a namespace names an object.
func isNamed(owner history.Key, mark, namespace string) bool {
	if of, name, qualified := strings.Cut(mark, "/"); qualified {
		return owner.Namespace == of && owner.Name == name
	}
	return owner.Name == mark && (owner.Namespace == "" || owner.Namespace == namespace)
}

// made returns the children of an object, including all that ever had its mark.
func (b *judgement) made(c Child, of *history.Lifetime) []*history.Lifetime {
	return slices.DeleteFunc(b.index.Lifetimes(c.Resource), func(l *history.Lifetime) bool {
		return !slices.ContainsFunc(l.Versions,
			func(v history.Version) bool { return c.ownerOf(b.index, of.Resource, v) == of })
	})
}
