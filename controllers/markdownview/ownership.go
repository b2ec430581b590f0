package markdownview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

// belonging is whose an object under one of our names is.
type belonging string

const (
	ours        belonging = "ours"
	predecessor belonging = "predecessor" // of a MarkdownView of this name that is gone
	foreign     belonging = "foreign"
)

// belongs decides whose a child is. It is ours if its controller is the view, by
// UID. Labels, names and owner references that are no controller's prove nothing:
// anybody may put them there. What a former view of the same name controls is the
// garbage collector's to remove; like what is foreign, it is never touched.
func belongs(v *v1beta1.MarkdownView, child metav1.Object) belonging {
	controller := metav1.GetControllerOfNoCopy(child)
	switch {
	case controller == nil || v.UID == "":
		return foreign
	case controller.UID == v.UID:
		return ours
	case controller.APIVersion == viewKind.GroupVersion().String() && controller.Kind == viewKind.Kind && controller.Name == v.Name:
		return predecessor
	default:
		return foreign
	}
}
