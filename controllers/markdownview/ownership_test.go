package markdownview

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1beta1"
)

func TestBelongs(t *testing.T) {
	ref := func(uid, name string, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "MarkdownView", Name: name, UID: types.UID(uid), Controller: controller}
	}
	yes, no := new(true), new(false)
	other := ref("other", "book", yes)
	other.Kind = "Tenant"
	older := ref("other", "book", yes)
	older.APIVersion = "leasehold.dev/v1"
	for reason, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   belonging
	}{
		"nobody's":                            {nil, foreign},
		"ours":                                {[]metav1.OwnerReference{ref("uid", "book", yes)}, ours},
		"ours by UID, whatever the name":      {[]metav1.OwnerReference{ref("uid", "another", yes)}, ours},
		"owned and not controlled":            {[]metav1.OwnerReference{ref("uid", "book", no)}, foreign},
		"owned, with no word about control":   {[]metav1.OwnerReference{ref("uid", "book", nil)}, foreign},
		"owned by us, controlled by another":  {[]metav1.OwnerReference{ref("uid", "book", nil), ref("other", "another", yes)}, foreign},
		"controlled by us, owned by another":  {[]metav1.OwnerReference{ref("other", "another", nil), ref("uid", "book", yes)}, ours},
		"of a former one of this name":        {[]metav1.OwnerReference{ref("other", "book", yes)}, predecessor},
		"of another of this kind":             {[]metav1.OwnerReference{ref("other", "another", yes)}, foreign},
		"of another kind under this name":     {[]metav1.OwnerReference{other}, foreign},
		"of another version that we know not": {[]metav1.OwnerReference{older}, foreign},
		"of no UID, which nobody has":         {[]metav1.OwnerReference{ref("", "another", yes)}, foreign},
	} {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners, Labels: labelsFor(view())}}
		if got := belongs(view(), child); got != tc.want {
			t.Errorf("%s: %s, want %s", reason, got, tc.want)
		}
	}
	unsaved := view(func(v *v1beta1.MarkdownView) { v.UID = "" })
	if got := belongs(unsaved, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{ref("", "book", yes)}}}); got != foreign {
		t.Errorf("a view without a UID owns nothing, got %s", got)
	}
}
