// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
)

// otherOperator applies runners/election/fence, which is for operators in other repositories, and
// writes as two Pods of such an operator.
func (f *fenced) otherOperator(ctx context.Context) {
	GinkgoHelper()
	const namespace, account, leaseName = "fenced-system", "fenced", "fenced.example.com"
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: meta(account)}
	lease := &coordinationv1.Lease{ObjectMeta: meta(leaseName),
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("first_uuid")}}
	rendered, _, err := env.InstallOptions{Manifests: filepath.Join("testdata", "fence")}.Render(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(rendered).To(HaveLen(2), "the values are not part of the installation")
	for _, o := range rendered {
		Expect(f.client.Create(ctx, o)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(f.client.Delete(ctx, o)).To(Succeed()) })
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, serviceAccount, lease,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
		},
	} {
		Expect(f.client.Create(ctx, o)).To(Succeed())
	}
	as := func(pod string) client.Client {
		GinkgoHelper()
		created := &corev1.Pod{ObjectMeta: meta(pod), Spec: corev1.PodSpec{ServiceAccountName: account,
			Containers: []corev1.Container{{Name: "manager", Image: "manager"}}}}
		Expect(f.client.Create(ctx, created)).To(Succeed())
		token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: created.UID}}}
		Expect(f.client.SubResource("token").Create(ctx, serviceAccount, token)).To(Succeed())
		c := rest.AnonymousClientConfig(f.plane.Config())
		c.BearerToken = token.Status.Token
		return f.clientOf(c)
	}
	first, second := as("first"), as("second")
	write := func(c client.Client) func(context.Context) error {
		return func(ctx context.Context) error {
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("written")}, client.DryRunAll)
		}
	}
	Eventually(write(second)).WithContext(ctx).WithTimeout(expect.Medium).Should(
		MatchError(ContainSubstring("Pod second does not hold the Lease fenced-system/fenced.example.com, first_uuid does")))
	Eventually(write(first)).WithContext(ctx).Should(Succeed())
	for what, write := range f.writes(ctx) {
		Expect(write(first)).To(Succeed(), what)
		Expect(write(second)).To(MatchError(ContainSubstring("Pod second does not hold the Lease")), what)
	}
	By("denying a standby to run commands in a container")
	exec := func(c client.Client) error {
		return c.SubResource("exec").Create(ctx, &corev1.Pod{ObjectMeta: meta("first")}, &corev1.Pod{})
	}
	Expect(exec(second)).To(MatchError(ContainSubstring("Pod second does not hold the Lease")))
	Expect(exec(first)).To(MatchError(ContainSubstring("pod first does not have a host assigned")), "no kubelet runs it here")
	Expect(second.Update(ctx, lease, client.DryRunAll)).To(Succeed())
	Expect(second.Create(ctx, &eventsv1.Event{ObjectMeta: meta("recorded"), Type: corev1.EventTypeNormal,
		EventTime: metav1.NowMicro(), Reason: "Test", Action: "Test", ReportingController: "test", ReportingInstance: "test",
		Regarding: corev1.ObjectReference{Namespace: namespace}}, client.DryRunAll)).To(Succeed())
	Expect(second.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: "unknown"}})).To(Succeed())

	lease.Spec.HolderIdentity = new("second_uuid")
	Expect(f.client.Update(ctx, lease)).To(Succeed())
	Eventually(write(second)).WithContext(ctx).Should(Succeed())
	Expect(write(first)(ctx)).To(MatchError(ContainSubstring("Pod first does not hold the Lease")))
	Expect(write(f.client)(ctx)).To(Succeed(), "other clients are not judged")
}
