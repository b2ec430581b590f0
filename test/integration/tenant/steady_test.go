package tenant_test

import (
	"fmt"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/record"
)

var _ = Describe("A steady state", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	BeforeEach(settled)

	It("is left alone: 100 looks, no write and no event (R7)", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("calm"), suffixes("dev")))
		ns := namespaceOf(t.Name + "-dev")
		Eventually(ctx, eventsAbout(t)).Should(HaveLen(2))
		before := reconciles(ctx)
		since := suite.AuditPosition()

		for i := range 100 {
			// A stranger's annotation is nothing to us, but it wakes the controller.
			change(ctx, ns, func(ns *corev1.Namespace) {
				ns.Annotations["example.com/touched"] = strconv.Itoa(i)
			})
			Eventually(func(g Gomega) { g.Expect(reconciles(ctx)).To(BeNumerically(">", before+float64(i))) }).
				WithContext(ctx).WithTimeout(expect.Short).WithPolling(expect.Poll / 10).Should(Succeed())
		}
		Expect(reconciles(ctx)-before).To(BeNumerically(">=", 100), "the controller must have been alive")
		Expect(suite.Writes(since)).To(BeEmpty())
		Expect(eventsAbout(t)(ctx)).To(HaveLen(2))
	})

	It("costs no more writes to reach than there are things to write", func(ctx SpecContext) {
		since := suite.AuditPosition()
		t := givenReady(ctx, build(unique("cost"), suffixes("a", "b", "c")))
		// 3 namespaces, 3 bindings, the reader's role and binding, the finalizer,
		// the declared names and the final status. A pass on a cache that is a moment
		// late may try a write again, which the API server refuses.
		// The line of a write follows its effect, so the last one may be a moment late;
		// one too many would be counted in the step below.
		Eventually(suite.Writes).WithArguments(since, record.Match(record.Succeeded)).Should(HaveLen(3 + 3 + 2 + 1 + 2))

		By("changing the admins: each binding, and the status for the new generation")
		since = suite.AuditPosition()
		t.Spec.Admins[0].Name = "another"
		Expect(k8s.Update(ctx, t)).To(Succeed())
		eventuallyReady(ctx, t)
		Eventually(suite.Writes).WithArguments(since, record.Match(record.Succeeded)).Should(HaveLen(3 + 1 + 1))
	})

	It("ends with the Tenant: its metrics go when it goes (R20)", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("gauge"), suffixes("dev", "prod")))
		series := fmt.Sprintf(`leasehold_tenant_namespaces{tenant=%q}`, t.Name)
		Eventually(ctx, suite.Metric).WithArguments(series).Should(BeEquivalentTo(2))
		Expect(k8s.Delete(ctx, t)).To(Succeed())
		Eventually(ctx, reading(t)).WithTimeout(expect.Long).Should(expect.BeGone())
		Eventually(ctx, suite.HasMetric).WithArguments(series).Should(BeFalse())
	})
})

// The API server's side of controllers/internal/apply: no release note promises
// it, so it is pinned here.
var _ = Describe("Server-side apply", func() {
	It("that carries resourceVersion 1 creates, and never touches what is there", func(ctx SpecContext) {
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
		Expect(fetched(ns)(ctx)).To(And(HaveField("ResourceVersion", before), HaveField("Labels", HaveKeyWithValue("l", "first"))))
	})
})
