// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/record"
)

// The API server's behaviour that controllers/internal/apply depends on and no documentation guarantees.
var _ = Describe("Server-side apply", func() {
	It("with resourceVersion 1 creates an object, and never changes an existing one", func(ctx SpecContext) {
		name := unique("create")
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, namespaceOf(name))).To(Succeed()) })
		try := func(label string) error {
			return k8s.Apply(ctx, corev1ac.Namespace(name).WithLabels(map[string]string{"l": label}).WithResourceVersion("1"),
				client.FieldOwner("spec"), client.ForceOwnership)
		}
		Expect(try("first")).To(Succeed())
		ns := namespaceOf(name)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
		before := ns.ResourceVersion

		err := try("second")
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		Expect(fetched(ns)(ctx)).To(And(HaveField("ResourceVersion", before),
			HaveField("Labels", HaveKeyWithValue("l", "first"))))
	})
})

// The same for apply.PatchStatus.
var _ = Describe("A patch of the status", func() {
	It("is refused after a change of the status, and not after other changes", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("swap"), suffixes("dev")))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
		// The API server compares encoded strings, so its encoding must equal Go's.
		t.Status.Conditions = append(t.Status.Conditions, metav1.Condition{
			Type: "example.com/Noted", Status: metav1.ConditionTrue, Reason: "Noted", LastTransitionTime: metav1.Now(),
			Message: "<a> & \"b\"\t\u00e9\u2028\u0001",
		})
		Expect(k8s.Status().Update(ctx, t)).To(Succeed())
		judged := t.DeepCopy()
		// Another client's label does not change the status.
		change(ctx, t, func(t *v1beta1.Tenant) { t.Labels = map[string]string{"example.com/edited": "yes"} })
		try := func(uid types.UID, before any) error {
			after := judged.Status.DeepCopy()
			after.ObservedGeneration = 0
			swap, err := json.Marshal([]map[string]any{
				{"op": "test", "path": "/metadata/uid", "value": uid},
				{"op": "test", "path": "/status", "value": before},
				{"op": "add", "path": "/status", "value": after},
			})
			Expect(err).NotTo(HaveOccurred())
			return k8s.Status().Patch(ctx, judged.DeepCopy(), client.RawPatch(types.JSONPatchType, swap), client.DryRunAll)
		}
		Expect(try(judged.UID, judged.Status)).To(Succeed())

		old := judged.Status.DeepCopy()
		old.ObservedGeneration = 77
		for _, err := range []error{try("another", judged.Status), try(judged.UID, old), try(judged.UID, nil),
			try(judged.UID, map[string]any{})} {
			// The response names neither the failed comparison nor a comparison at all.
			Expect(err).To(MatchError("the server rejected our request due to an error in our request"))
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		}
	})

	It("has the resourceVersion as precondition if our types lack a field of the stored status", Serial,
		func(ctx SpecContext) {
			name := unique("newer")
			stranger(ctx, name+"-dev")
			t := given(ctx, build(name, suffixes("dev")))
			inConflict := expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonNamespaceConflict)
			Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(inConflict)
			// Our types omit an empty UID as they omit a field of a newer release.
			explicit := fmt.Sprintf(`{"status":{"namespaces":[{"name":%q,"reason":%q,"uid":""}]}}`, name+"-dev",
				v1beta1.ReasonNamespaceConflict)
			Expect(k8s.Status().Patch(ctx, t, client.RawPatch(types.MergePatchType, []byte(explicit)))).To(Succeed())

			since := suite.AuditPosition()
			change(ctx, t, func(t *v1beta1.Tenant) { t.Spec.Admins[0].Name = "another" })
			Eventually(ctx, fetched(t)).WithTimeout(expect.Medium).Should(And(expect.HaveObservedGeneration(), inConflict))
			status := "patch tenants/status " + t.Name
			Eventually(suite.Writes).WithArguments(since, record.Named(t.Name), record.Filter(record.Succeeded)).
				Should(ContainElement(status))
			Expect(suite.Writes(since, record.Named(t.Name), record.Not(record.Succeeded))).To(ContainElement(status))
		})
})
