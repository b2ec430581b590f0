package storagebucket_test

import (
	"fmt"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

// unknownServices is an operator that cannot read the Service ranges. Before
// Kubernetes 1.33 the API server does not list them by default; later ones do not
// start without that API, so there the operator loses its right to list them.
func unknownServices(ctx SpecContext, args ...string) *env.Replica {
	GinkgoHelper()
	replica := ownInstallation(ctx, env.Options{}, args...)
	role := &rbacv1.ClusterRole{ObjectMeta: named("", "leasehold-manager-role")}
	operator.Change(ctx, k8s, role, func(r *rbacv1.ClusterRole) {
		r.Rules = slices.DeleteFunc(r.Rules,
			func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "servicecidrs") })
	})
	Eventually(ctx, operator.Can(k8s, operator.User, nil, authorizationv1.ResourceAttributes{
		Verb: "list", Group: "networking.k8s.io", Resource: "servicecidrs",
	})).Should(BeFalse())
	code, err := replica.Stop(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(code).To(BeZero())
	Expect(replica.Restart()).To(Succeed())
	Eventually(ctx, replica.Ready).WithTimeout(expect.Medium).Should(Succeed(),
		func() string { return replica.LogTail(20) })
	return replica
}

// logOf is all that a replica has logged.
func logOf(replica *env.Replica) func() (string, error) {
	return func() (string, error) {
		log, err := os.ReadFile(replica.LogPath())
		return string(log), err
	}
}

// dialled waits until the endpoint at an address was tried. Nothing is expected to
// answer there.
func dialled(ctx SpecContext, namespace, address string) {
	GinkgoHelper()
	b := given(ctx, build(namespace, "http://"+address+":9000", "some-bucket", probing(10, 1, 1)))
	Eventually(ctx, operator.Fetched(k8s, b)).Should(HaveField("Status.Conditions", ContainElement(And(
		HaveField("Type", v1beta1.ConditionReady), HaveField("Status", metav1.ConditionFalse),
		HaveField("Reason", Not(Equal(v1beta1.ReasonEndpointForbidden)))))))
}

var _ = Describe("Where the Service ranges are not known, the guard", operator.OldestKubernetes, func() {
	forbidden := func(ctx SpecContext, namespace, address, message string) {
		GinkgoHelper()
		b := given(ctx, build(namespace, "http://"+address+":9000", "some-bucket", probing(10, 1, 1)))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonEndpointForbidden)
		Expect(b.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring(message))))
	}
	It("refuses every address that could be a Service's, and nothing else", func(ctx SpecContext) {
		replica := unknownServices(ctx)
		namespace := place(ctx)
		for _, address := range []string{"10.96.0.10", "10.0.0.10", "172.20.0.10", "192.168.255.1", "[fd00:10:96::a]",
			"[::ffff:10.96.0.10]"} {
			forbidden(ctx, namespace, address, "--service-cidr")
		}
		Expect(logOf(replica)()).To(ContainSubstring("the API server does not list the Service ranges"))
		forbidden(ctx, namespace, "169.254.169.254", "link-local")
		dialled(ctx, namespace, "192.0.2.1")
		eventuallyReady(ctx, given(ctx, build(namespace, storage.Endpoint(), bucketOnServer(ctx))))
	}, SpecTimeout(3*time.Minute))

	It("refuses exactly the ranges that --service-cidr names", func(ctx SpecContext) {
		replica := unknownServices(ctx, "--service-cidr=10.96.0.0/12", "--service-cidr=198.51.100.0/24")
		namespace := place(ctx)
		for _, address := range []string{"10.96.0.10", "10.111.255.255", "198.51.100.7"} {
			forbidden(ctx, namespace, address, "a Service")
		}
		Expect(logOf(replica)()).To(ContainSubstring(`"byFlag":true`))
		for _, address := range []string{"10.95.255.255", "10.112.0.1", "198.51.101.1"} {
			dialled(ctx, namespace, address)
		}
	}, SpecTimeout(3*time.Minute))
})

var _ = Describe("Where the Service ranges are known, the guard", func() {
	It("refuses those and no other private address", func(ctx SpecContext) {
		var ranges networkingv1.ServiceCIDRList
		if err := k8s.List(ctx, &ranges); err != nil {
			Skip(fmt.Sprintf("needs Kubernetes 1.33, which lists ServiceCIDRs: %v", err))
		}
		Expect(ranges.Items).NotTo(BeEmpty())
		dialled(ctx, place(ctx), "10.254.254.254")
	}, SpecTimeout(time.Minute))
})
