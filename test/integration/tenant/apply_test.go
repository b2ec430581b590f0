// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The API server's behaviour that controllers/internal/apply depends on and no documentation guarantees.
var _ = Describe("Server-side apply", func() {
	It("with resourceVersion 1 creates an object, and never changes an existing one", func(ctx SpecContext) {
		name := unique("create")
		suite.DeleteNamespaceAfter(name)
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
