// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BeControlledBy matches an object that has exactly one controller reference, and
// that one to owner, by UID.
func BeControlledBy(owner client.Object) types.GomegaMatcher {
	return &objectMatcher{
		want: fmt.Sprintf("to be controlled by\n    %s (UID %s)", describe(owner), owner.GetUID()),
		judge: func(o client.Object) (bool, string, error) {
			if owner.GetUID() == "" {
				return false, "", fmt.Errorf("%s has no UID: the owner must have been read from the API server", describe(owner))
			}
			refs := o.GetOwnerReferences()
			controllers := slices.DeleteFunc(slices.Clone(refs),
				func(r metav1.OwnerReference) bool { return !ptr.Deref(r.Controller, false) })
			return len(controllers) == 1 && controllers[0].UID == owner.GetUID(),
				"owner references: " + list(referenceLines(refs)), nil
		},
	}
}

// HaveOwnerReferences matches an object that has these owner references and no
// others, in any order. Without arguments it matches an object that has none.
func HaveOwnerReferences(exactly ...metav1.OwnerReference) types.GomegaMatcher {
	return &objectMatcher{
		want: "to have exactly the owner references\n" + indent(list(referenceLines(exactly))),
		judge: func(o client.Object) (bool, string, error) {
			refs := o.GetOwnerReferences()
			return equality.Semantic.DeepEqual(byUID(refs), byUID(exactly)), list(referenceLines(refs)), nil
		},
	}
}

func byUID(refs []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.SortedFunc(slices.Values(refs), func(a, b metav1.OwnerReference) int {
		return strings.Compare(string(a.UID), string(b.UID))
	})
}

func referenceLines(refs []metav1.OwnerReference) []string {
	lines := make([]string, 0, len(refs))
	for _, ref := range refs {
		lines = append(lines, fmt.Sprintf("%s %s %s (UID %s, controller %t, blockOwnerDeletion %t)",
			ref.APIVersion, ref.Kind, ref.Name, ref.UID,
			ptr.Deref(ref.Controller, false), ptr.Deref(ref.BlockOwnerDeletion, false)))
	}
	return lines
}
