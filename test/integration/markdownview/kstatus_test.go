package markdownview_test

import (
	"context"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

// Tools such as GitOps controllers judge every kind by these rules.
var _ = Describe("kstatus", func() {
	judged := func(v *v1beta1.MarkdownView) func(context.Context) (status.Status, error) {
		return func(ctx context.Context) (status.Status, error) {
			current := &v1beta1.MarkdownView{}
			if err := k8s.Get(ctx, client.ObjectKeyFromObject(v), current); err != nil {
				return "", err
			}
			return operator.Kstatus(current)
		}
	}

	It("reads a MarkdownView right all its life", func(ctx SpecContext) {
		v := given(ctx, build(unique("life")))
		Expect(operator.Kstatus(v)).To(Equal(status.InProgressStatus), "before the operator has seen it")
		eventuallyObserved(ctx, v)
		Expect(judged(v)(ctx)).To(Equal(status.InProgressStatus))
		eventuallyReady(ctx, v)
		Expect(judged(v)(ctx)).To(Equal(status.CurrentStatus))
		change(ctx, v, replicas(2))
		Expect(judged(v)(ctx)).To(Equal(status.InProgressStatus), "from the moment of the change on")
		eventuallyReady(ctx, v)
		Expect(judged(v)(ctx)).To(Equal(status.CurrentStatus))

		By("being blocked by an object that it does not own")
		configMap := configMapOf(v)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(configMap), configMap)).To(Succeed())
		configMap.OwnerReferences = nil
		Expect(k8s.Update(ctx, configMap)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(k8s.Delete(ctx, configMap)).To(Succeed()) })
		Eventually(ctx, judged(v)).WithTimeout(expect.Medium).Should(Equal(status.FailedStatus))

		By("being on its way out")
		v.Finalizers = []string{"example.com/hold"}
		change(ctx, v, func(v *v1beta1.MarkdownView) { v.Finalizers = []string{"example.com/hold"} })
		Expect(k8s.Delete(ctx, v)).To(Succeed())
		Expect(judged(v)(ctx)).To(Equal(status.TerminatingStatus))
		change(ctx, v, func(v *v1beta1.MarkdownView) { v.Finalizers = nil })
	})
})
