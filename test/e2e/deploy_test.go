package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"
)

func TestDeploy(t *testing.T) {
	testenv.Test(t, features.New("`make deploy` runs two replicas").
		Assess("on two workers, both Ready", step(func(ctx context.Context, g *WithT) {
			pods, err := shared.pods(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods).To(HaveLen(2))
			g.Expect(pods[0].Spec.NodeName).NotTo(Equal(pods[1].Spec.NodeName))
			for i := range pods {
				g.Expect(podReady(&pods[i])).To(BeTrue(), pods[i].Name)
				g.Expect(pods[i].Spec.NodeName).To(ContainSubstring("worker"))
			}
		})).
		Assess("of which one holds the one Lease", step(func(ctx context.Context, g *WithT) {
			leases, err := shared.cluster.Clients().CoordinationV1().Leases(operatorNamespace).List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(leases.Items).To(HaveLen(1))
			pod, err := shared.leader(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(holderOf(&leases.Items[0])).To(Equal(pod.Name))
		})).
		Assess("with no other rights than the shipped ones", step(func(ctx context.Context, g *WithT) {
			g.Expect(bindingsOfOthers(ctx)).To(BeEmpty())
		})).
		Feature())
}

// bindingsOfOthers are bindings for the operator's ServiceAccount, by name or as
// one of a group, beyond those that are labelled as shipped and those that
// Kubernetes gives to every account.
func bindingsOfOthers(ctx context.Context) ([]string, error) {
	var others []string
	look := func(o client.Object, kind string, subjects []rbacv1.Subject) {
		mine := slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == operatorNamespace || s.Name == operatorUser ||
				s.Name == "system:serviceaccounts:"+operatorNamespace || s.Name == "system:serviceaccounts"
		})
		shipped := o.GetLabels()["app.kubernetes.io/name"] == "leasehold" ||
			o.GetLabels()["kubernetes.io/bootstrapping"] == "rbac-defaults"
		if mine && !shipped {
			others = append(others, fmt.Sprintf("%s %s/%s", kind, o.GetNamespace(), o.GetName()))
		}
	}
	var cluster rbacv1.ClusterRoleBindingList
	if err := shared.client.List(ctx, &cluster); err != nil {
		return nil, err
	}
	for i := range cluster.Items {
		look(&cluster.Items[i], "ClusterRoleBinding", cluster.Items[i].Subjects)
	}
	var namespaced rbacv1.RoleBindingList
	if err := shared.client.List(ctx, &namespaced); err != nil {
		return nil, err
	}
	for i := range namespaced.Items {
		look(&namespaced.Items[i], "RoleBinding", namespaced.Items[i].Subjects)
	}
	return others, nil
}
