package e2e

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/e2e-framework/pkg/features"
)

// TestUndeploy is the last by its file's name: a fence that was taken away and put
// back lets everything through until the API server restarts, see D32.
func TestUndeploy(t *testing.T) {
	testenv.Test(t, features.New("`make undeploy`").
		Assess("refuses while there is a Tenant", step(func(ctx context.Context, g *WithT) {
			tenant := newTenant("e2e-held", "a")
			g.Expect(shared.client.Create(ctx, tenant)).To(Succeed())
			g.Expect(shared.make(ctx, "undeploy", "OVERLAY=config/e2e")).To(MatchError(ContainSubstring("There are still Tenants")))
			remove(ctx, g, tenant)
		})).
		Assess("leaves nothing", step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.make(ctx, "undeploy", "OVERLAY=config/e2e")).To(Succeed())
			g.Eventually(shared.left).WithContext(ctx).WithTimeout(readyTimeout).Should(BeEmpty())
		})).
		Assess("and `make deploy` puts it back", step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.deploy(ctx)).To(Succeed())
			g.Expect(shared.awaitOperator(ctx)).To(Succeed())
		})).
		Feature())
}

// left is everything of any kind that bears our label or our name.
func (s *suite) left(ctx context.Context) ([]string, error) {
	objects, err := s.cluster.Objects(ctx)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, o := range objects {
		ours := o.GetLabels()["app.kubernetes.io/name"] == "leasehold" || o.GetNamespace() == operatorNamespace || o.GetName() == operatorNamespace
		if ours && o.GetKind() != "Event" {
			left = append(left, fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()))
		}
	}
	return left, nil
}
