package markdownview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

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
