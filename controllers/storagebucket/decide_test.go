// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/storagebucket/s3"
)

func terminating(b *v1beta1.StorageBucket) {
	removable(b)
	b.DeletionTimestamp = &metav1.Time{Time: epoch}
}

// A plan is data: each observation leads to exactly these steps.
func TestDecide(t *testing.T) {
	ours, theirs := map[string]string{v1beta1.BucketTagOwner: "uid-b"}, map[string]string{v1beta1.BucketTagOwner: "x"}
	missing, noTags := failed(v1beta1.ReasonBucketNotFound), failed(v1beta1.ReasonTagsNotSupported)
	for name, tc := range map[string]struct {
		with    func(*v1beta1.StorageBucket)
		o       observation
		steps   []action
		verdict string
		kept    string
	}{
		"observed, exists":   {func(*v1beta1.StorageBucket) {}, observation{verdict: good}, nil, good.Reason, ""},
		"observed, missing":  {func(*v1beta1.StorageBucket) {}, observation{verdict: missing}, nil, missing.Reason, ""},
		"managed, missing":   {manage, observation{verdict: missing}, []action{create}, good.Reason, ""},
		"managed, ours":      {manage, observation{verdict: good, tags: ours}, nil, good.Reason, ""},
		"managed, theirs":    {manage, observation{verdict: good, tags: theirs}, nil, v1beta1.ReasonBucketConflict, ""},
		"managed, no tag":    {manage, observation{verdict: good}, nil, v1beta1.ReasonBucketConflict, ""},
		"managed, timed out": {manage, observation{verdict: timedOut}, nil, timedOut.Reason, ""},
		"removed, ours":      {terminating, observation{verdict: good, tags: ours}, []action{remove, release}, good.Reason, ""},
		"removed, missing":   {terminating, observation{verdict: missing}, []action{release}, missing.Reason, ""},
		"removed, orphaned":  {terminating, observation{orphaned: true, tags: ours}, []action{release}, "", ""},
		"removed, timed out": {terminating, observation{verdict: timedOut}, nil, timedOut.Reason, ""},
		"removed, keys lost": {terminating, observation{verdict: timedOut, lost: true}, nil, timedOut.Reason, ""},
		"removed, with all": {terminating, observation{verdict: timedOut, lost: true, namespace: &corev1.Namespace{}},
			[]action{release}, timedOut.Reason, timedOut.Reason},
		"removed, theirs": {terminating, observation{verdict: good, tags: theirs}, []action{release}, good.Reason,
			v1beta1.ReasonBucketConflict},
		"removed, no tags":    {terminating, observation{verdict: noTags}, []action{release}, noTags.Reason, noTags.Reason},
		"removed, no service": {terminating, observation{verdict: failed(v1beta1.ReasonServerError)}, nil, v1beta1.ReasonServerError, ""},
	} {
		tc.o.bucket = bucket("b", tc.with)
		got := decide(&tc.o)
		if diff := cmp.Diff(tc.steps, got.steps); diff != "" ||
			got.verdict.Reason != tc.verdict || got.kept != tc.kept {
			t.Errorf("%s: %+v, want the verdict %q and kept %q, steps (-want +got):\n%s", name, got, tc.verdict, tc.kept, diff)
		}
	}
}

// Whatever is observed, a plan creates only where the endpoint proves that there is no bucket, removes only a
// bucket with the tag, under Delete, and gives up a bucket only with a reason.
func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bucket("b", func(b *v1beta1.StorageBucket) {
			b.Spec.ManagementPolicy = rapid.SampledFrom([]v1beta1.BucketManagementPolicy{
				v1beta1.BucketManage, v1beta1.BucketObserve}).Draw(t, "management")
			b.Spec.DeletionPolicy = rapid.SampledFrom([]v1beta1.BucketDeletionPolicy{
				v1beta1.BucketDelete, v1beta1.BucketRetain}).Draw(t, "deletion")
			b.Status.Provisioning = rapid.SampledFrom([]v1beta1.BucketProvisioning{
				"", v1beta1.BucketIntended, v1beta1.BucketCreated}).Draw(t, "provisioning")
			if rapid.Bool().Draw(t, "terminating") {
				b.DeletionTimestamp = &metav1.Time{Time: epoch}
			}
		})
		o := &observation{bucket: b, orphaned: rapid.Bool().Draw(t, "orphaned"), lost: rapid.Bool().Draw(t, "lost"),
			verdict: s3.Verdict{Reason: rapid.SampledFrom(allReasons).Draw(t, "reason")}}
		if owner := rapid.SampledFrom([]string{"", "uid-b", "x"}).Draw(t, "owner"); owner != "" {
			o.tags = map[string]string{v1beta1.BucketTagOwner: owner}
		}
		if rapid.Bool().Draw(t, "namespace ends") {
			o.namespace = &corev1.Namespace{}
		}
		p, ends := decide(o), !b.DeletionTimestamp.IsZero()
		has := func(a action) bool { return slices.Contains(p.steps, a) }
		ours := o.verdict.OK() && o.tags[v1beta1.BucketTagOwner] == "uid-b"
		switch {
		case has(create) && (ends || b.Spec.ManagementPolicy != v1beta1.BucketManage || !o.verdict.Missing()):
			t.Fatalf("creates a bucket: %+v of %+v", p, o)
		case has(remove) && (!ends || !ours || o.orphaned || b.Spec.DeletionPolicy != v1beta1.BucketDelete ||
			b.Status.Provisioning == "" || p.steps[len(p.steps)-1] != release):
			t.Fatalf("removes a bucket: %+v of %+v", p, o)
		case has(release) && !ends, !ends && p.kept != "":
			t.Fatalf("releases a StorageBucket that exists: %+v of %+v", p, o)
		case ends && o.removes() && ours && !has(remove):
			t.Fatalf("leaves its own bucket: %+v of %+v", p, o)
		case !ends && p.verdict.OK() && !has(create) && b.Spec.ManagementPolicy == v1beta1.BucketManage && !ours:
			t.Fatalf("a bucket of another owner counts as a success: %+v of %+v", p, o)
		}
	})
}
