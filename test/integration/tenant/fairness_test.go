package tenant_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/record"
)

var _ = Describe("An admin who spoils their RoleBindings without a pause", func() {
	It("does not delay another Tenant", Serial, func(ctx SpecContext) {
		noisy := givenReady(ctx, build(unique("noisy"), suffixes("a", "b", "c", "d", "e")))
		spoiling, stop := context.WithCancel(ctx)
		var writers sync.WaitGroup
		var spoiled atomic.Int64
		for _, suffix := range noisy.Spec.Namespaces {
			writers.Go(func() {
				binding := bindingIn(noisy.Name + "-" + string(suffix))
				for turn := 0; spoiling.Err() == nil; turn++ {
					patch := fmt.Appendf(nil, `{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"mallory-%d"}]}`, turn)
					// A refused update is as good: the next one follows at once.
					if k8s.Patch(spoiling, binding.DeepCopy(), client.RawPatch("application/merge-patch+json", patch)) == nil {
						spoiled.Add(1)
					}
				}
			})
		}
		defer writers.Wait()
		defer stop()
		Eventually(spoiled.Load).WithTimeout(expect.Medium).Should(BeNumerically(">", 100))
		position := suite.AuditPosition()
		for range 3 {
			began := time.Now()
			quiet := givenReady(ctx, build(unique("quiet"),
				func(t *v1beta1.Tenant) { t.Spec.Namespaces = []v1beta1.NamespaceSuffix{"dev"} }))
			Expect(time.Since(began)).To(BeNumerically("<=", 10*time.Second), "until %s was Ready", quiet.Name)
		}
		By("seeing that the noisy Tenant was worked on all the time")
		Expect(suite.Writes(position, record.InNamespace(noisy.Name+"-a"))).NotTo(BeEmpty())
	}, SpecTimeout(3*time.Minute))
})
