// Package tenant_test drives the real operator binary, two replicas of it under
// the shipped rights and manifests, and watches what becomes of Tenants.
package tenant_test

import (
	"context"
	"encoding/json"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
)

var (
	controlPlane *env.ControlPlane // only in the process that started it
	operator     *subject          // likewise
	shared       plane
	restConfig   *rest.Config
	k8s          client.Client
)

// plane is what the parallel processes of one run share.
type plane struct {
	Kubeconfig, AuditLog string
	// Collects: namespaces that are deleted go away.
	Collects bool
}

func TestTenant(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(expect.Short)
	SetDefaultEventuallyPollingInterval(expect.Poll)
	SetDefaultConsistentlyDuration(expect.StaysFor)
	SetDefaultConsistentlyPollingInterval(expect.Poll)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Tenant")
}

var _ = SynchronizedBeforeSuite(func(ctx SpecContext) []byte {
	// What is started here outlives this node, and so must its context.
	lasting := context.WithoutCancel(ctx)
	var err error
	controlPlane, err = env.Start(lasting, env.Options{
		CRDs:        []string{"../../../config/crd/bases"},
		AuditGroups: []string{v1beta1.GroupVersion.Group},
	})
	Expect(err).NotTo(HaveOccurred())
	operator = newSubject(lasting, controlPlane)
	data, err := json.Marshal(plane{controlPlane.Kubeconfig(), controlPlane.AuditLog(), controlPlane.HasControllerManager()})
	Expect(err).NotTo(HaveOccurred())
	return data
}, func(ctx SpecContext, data []byte) {
	ctrl.SetLogger(GinkgoLogr)
	Expect(json.Unmarshal(data, &shared)).To(Succeed())
	var err error
	restConfig, err = clientcmd.BuildConfigFromFlags("", shared.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	restConfig.QPS = -1
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, apiextensionsv1.AddToScheme} {
		Expect(add(known)).To(Succeed())
	}
	k8s, err = client.New(restConfig, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	By("waiting until the webhooks answer")
	Eventually(ctx, func(ctx context.Context) error {
		return k8s.Create(ctx, build("answers"), client.DryRunAll)
	}).WithTimeout(expect.Long).Should(Succeed())
})

var _ = SynchronizedAfterSuite(func() {}, func(ctx SpecContext) {
	if operator != nil {
		operator.end(ctx)
	}
	if controlPlane != nil {
		Expect(controlPlane.Stop()).To(Succeed())
	}
})
