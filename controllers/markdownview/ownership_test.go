package markdownview

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

func TestOwnerOf(t *testing.T) {
	ref := func(uid, name string, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "MarkdownView", Name: name,
			UID: types.UID(uid), Controller: controller}
	}
	yes, no := new(true), new(false)
	other := ref("other", "book", yes)
	other.Kind = "Tenant"
	older := ref("other", "book", yes)
	older.APIVersion = "leasehold.dev/v1"
	for reason, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   ownership
	}{
		"no owner":                        {nil, foreign},
		"owned":                           {[]metav1.OwnerReference{ref("uid", "book", yes)}, self},
		"owned by UID, with another name": {[]metav1.OwnerReference{ref("uid", "another", yes)}, self},
		"owner but no controller":         {[]metav1.OwnerReference{ref("uid", "book", no)}, foreign},
		"owner, controller unset":         {[]metav1.OwnerReference{ref("uid", "book", nil)}, foreign},
		"owner, controlled by another": {[]metav1.OwnerReference{ref("uid", "book", nil),
			ref("other", "another", yes)}, foreign},
		"controller, owned by another": {[]metav1.OwnerReference{ref("other", "another", nil),
			ref("uid", "book", yes)}, self},
		"controlled by a predecessor of this name":  {[]metav1.OwnerReference{ref("other", "book", yes)}, predecessor},
		"controlled by another view":                {[]metav1.OwnerReference{ref("other", "another", yes)}, foreign},
		"controlled by another kind with this name": {[]metav1.OwnerReference{other}, foreign},
		"controlled by an unknown version":          {[]metav1.OwnerReference{older}, foreign},
		"controller without a UID":                  {[]metav1.OwnerReference{ref("", "another", yes)}, foreign},
	} {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners, Labels: labelsFor(view())}}
		if got := ownerOf(view(), child); got != tc.want {
			t.Errorf("%s: %s, want %s", reason, got, tc.want)
		}
	}
	unsaved := view(func(v *v1beta1.MarkdownView) { v.UID = "" })
	forged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{ref("",
		"book", yes)}}}
	if got := ownerOf(unsaved, forged); got != foreign {
		t.Errorf("a view without a UID owns nothing, got %s", got)
	}
}
