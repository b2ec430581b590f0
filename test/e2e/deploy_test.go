// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
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
		Assess("and one of them holds the only Lease", step(func(ctx context.Context, g *WithT) {
			leases, err := shared.cluster.Clients().CoordinationV1().Leases(operatorNamespace).List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(leases.Items).To(HaveLen(1))
			pod, err := shared.leader(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(holderOf(&leases.Items[0])).To(Equal(pod.Name))
		})).
		Assess("with exactly the shipped RBAC rules", step(func(ctx context.Context, g *WithT) {
			g.Expect(bindingsOfOthers(ctx)).To(BeEmpty())
		})).
		Assess("and collects garbage before the container's memory limit", step(func(ctx context.Context, g *WithT) {
			share, found := memoryLimit(ctx, g)
			g.Expect(found).To(Equal(share))
		})).
		Feature())
}

// bindingsOfOthers returns bindings for the operator's ServiceAccount, by name or by group, that
// are neither labelled as shipped nor Kubernetes' default for every account.
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

// memoryLimit returns the share of the container's memory limit at which the garbage collector
// works harder, and the limit that a replica read from its control group, both as metrics.
func memoryLimit(ctx context.Context, g *WithT) (share, found string) {
	const reader = "e2e-metrics"
	kubectl := func(argv ...string) string {
		out, err := shared.kubectl(ctx, argv...)
		g.Expect(err).NotTo(HaveOccurred())
		return strings.TrimSpace(out)
	}
	defer kubectl("delete", "serviceaccount/"+reader, "clusterrolebinding/"+reader)
	kubectl("create", "serviceaccount", reader)
	kubectl("create", "clusterrolebinding", reader, "--clusterrole=leasehold-metrics-reader", "--serviceaccount=default:"+reader)
	pod, err := shared.leader(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	await(ctx, g, func() (err error) {
		// The authorizer caches a refusal for a while.
		found, err = shared.cluster.Exec(ctx, pod.Spec.NodeName, "sh", "-c",
			`curl --silent --fail --insecure --header "Authorization: Bearer $1" "$2" | grep '^go_gc_gomemlimit_bytes '`,
			"sh", kubectl("create", "token", reader), fmt.Sprintf("https://%s:8443/metrics", pod.Status.PodIP))
		return err
	}, Succeed())
	limit := pod.Spec.Containers[0].Resources.Limits.Memory().AsApproximateFloat64()
	return fmt.Sprintf("go_gc_gomemlimit_bytes %v", math.Floor(0.8*limit)), strings.TrimSpace(found)
}
