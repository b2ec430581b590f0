// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"
)

const fenceName = "leasehold-fence.leasehold.dev"

// By the name of this file the last feature but the upgrade: after it the API server ignores the
// fence until kube-apiserver is restarted.
func TestUndeploy(t *testing.T) {
	again := newTenant("e2e-deployed-again", "a")
	afterwards(t, func(ctx context.Context, g *WithT) { remove(ctx, g, again) })
	users := newHelmUser()
	afterwards(t, func(ctx context.Context, g *WithT) { users.clear(ctx, g) })
	testenv.Test(t, users.steps(features.New("`make undeploy`").
		Assess("refuses while there is a Tenant", step(func(ctx context.Context, g *WithT) {
			tenant := newTenant("e2e-held", "a")
			g.Expect(shared.client.Create(ctx, tenant)).To(Succeed())
			g.Expect(shared.make(ctx, "undeploy", "OVERLAY=config/e2e")).
				To(MatchError(ContainSubstring("There are still Tenants")))
			remove(ctx, g, tenant)
		})).
		Assess("leaves nothing", step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.left(ctx)).To(ContainElements(
				HavePrefix("Namespace "), HavePrefix("CustomResourceDefinition "), HavePrefix("ClusterRole "),
				HavePrefix("ValidatingWebhookConfiguration "), HavePrefix("ValidatingAdmissionPolicyBinding ")), "before")
			g.Expect(shared.make(ctx, "undeploy", "OVERLAY=config/e2e")).To(Succeed())
			g.Eventually(shared.left).WithContext(ctx).WithTimeout(readyTimeout).Should(BeEmpty())
		}))).
		Assess("`make deploy` installs it again", step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.deploy(ctx)).To(Succeed())
			g.Expect(shared.awaitOperator(ctx)).To(Succeed())
			g.Expect(shared.client.Create(ctx, again)).To(Succeed())
			await(ctx, g, tenantReady(again), Succeed())
			users.remains(ctx, g)
			users.clear(ctx, g)
		})).
		Assess("the fence denies writes again, at the latest when kube-apiserver has restarted",
			step(func(ctx context.Context, g *WithT) {
				g.Expect(shared.killAPIServer(ctx)).To(Succeed())
				await(ctx, g, fenceDenies, BeTrue())
				g.Expect(shared.awaitOperator(ctx)).To(Succeed())
			})).
		Feature())
}

// fenceDenies sends requests as the operator's ServiceAccount, but not from one of its Pods.
func fenceDenies(ctx context.Context) (bool, error) {
	config := shared.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser}
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return false, err
	}
	err = c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "e2e-fence"}}, client.DryRunAll)
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), fenceName) {
		return true, nil
	}
	return false, err
}

// killAPIServer kills kube-apiserver; the kubelet restarts it.
func (s *suite) killAPIServer(ctx context.Context) error {
	const component = "kube-apiserver"
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem),
		client.MatchingLabels{"component": component}); err != nil {
		return fmt.Errorf("listing kube-apiserver's Pods: %w", err)
	}
	if len(pods.Items) != 1 {
		return fmt.Errorf("there are %d Pods of kube-apiserver, want 1", len(pods.Items))
	}
	return s.cluster.Signal(ctx, &pods.Items[0], component, syscall.SIGKILL)
}

// left returns all objects of any kind with the operator's label or name.
func (s *suite) left(ctx context.Context) ([]string, error) {
	objects, err := s.cluster.Objects(ctx)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, o := range objects {
		ours := o.GetLabels()["app.kubernetes.io/name"] == "leasehold" || o.GetNamespace() == operatorNamespace ||
			o.GetName() == operatorNamespace
		if ours && o.GetKind() != "Event" {
			left = append(left, fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()))
		}
	}
	return left, nil
}
