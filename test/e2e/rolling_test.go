// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"
)

// The manager's defaults, which config/default keeps.
const (
	defaultLease    = 15 * time.Second
	defaultSettings = "15/10/2"
)

func TestRollingUpgrade(t *testing.T) {
	short, usual := electionArgs(t)
	stopped := nodeStopped(defaultSettings, defaultLease)
	testenv.Test(t,
		upgrade{mode: "rolling upgrade (from the release)", settings: shortSettings + " to " + defaultSettings, args: usual,
			lease: shortLease}.feature(),
		stopped.feature(),
		upgrade{mode: "rolling upgrade (from the release)", settings: defaultSettings + " to " + shortSettings, args: short,
			lease: defaultLease}.feature())
}

// electionArgs returns the Deployment's arguments with the short times of the tests, and without
// them, as in config/default. The test's cleanup restores the short ones.
func electionArgs(t *testing.T) (short, usual []string) {
	t.Helper()
	short, err := shared.operatorArgs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := shared.setOperatorArgs(ctx, short); err != nil {
			t.Error(err)
		} else if err := shared.settle(ctx); err != nil {
			t.Error(err)
		}
	})
	return short, slices.DeleteFunc(slices.Clone(short),
		func(arg string) bool { return strings.HasPrefix(arg, "--leader-elect-") })
}

// operatorArgs returns the arguments of the Deployment.
func (s *suite) operatorArgs(ctx context.Context) ([]string, error) {
	var d appsv1.Deployment
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: operatorName}, &d); err != nil {
		return nil, err
	}
	return d.Spec.Template.Spec.Containers[0].Args, nil
}

func (s *suite) setOperatorArgs(ctx context.Context, args []string) error {
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/args",
		"value": args}})
	if err != nil {
		return err
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: operatorName}}
	return s.client.Patch(ctx, d, client.RawPatch(types.JSONPatchType, patch))
}

// upgrade replaces the replicas one after the other while Tenants are created.
type upgrade struct {
	mode, settings string
	args           []string
	lease          time.Duration // of the replaced replicas
}

func (u upgrade) feature() features.Feature {
	f, tenants := &failing{}, (*load)(nil)
	return features.New("both replicas are replaced: "+u.settings).
		Assess("while Tenants are created, and each becomes Ready", step(func(ctx context.Context, g *WithT) {
			f.prepare(ctx, g)
			tenants = startLoad(ctx, time.Second, false)
			f.lost = time.Now()
			g.Expect(shared.setOperatorArgs(ctx, u.args)).To(Succeed())
			g.Expect(shared.awaitOperator(ctx)).To(Succeed())
			g.Eventually(shared.settled).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
			tenants.stop()
			g.Expect(tenants.errs).To(BeEmpty())
			g.Expect(len(tenants.tenants)).To(BeNumerically(">", 5))
		})).
		Assess("without a gap longer than a lease", step(func(_ context.Context, g *WithT) {
			slowest, took := tenants.slowest()
			shared.logf("  %s: %d Tenants, the slowest took %s", u.settings, len(tenants.tenants), took)
			g.Expect(took).To(BeNumerically("<", u.lease), slowest)
		})).
		Assess("with at least one replica Ready, and at the end with both on different nodes",
			step(func(ctx context.Context, g *WithT) {
				g.Expect(tenants.fewest).To(BeNumerically(">=", 1))
				pods, err := shared.pods(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(pods).To(HaveLen(2))
				g.Expect(pods[0].Spec.NodeName).NotTo(Equal(pods[1].Spec.NodeName))
			})).
		Assess("each event was emitted once", step(func(ctx context.Context, g *WithT) {
			// client-go records events beside the work, and the end of a process cuts off the last request: each
			// of the two replicas may have led and lost one.
			var without []string
			for _, tenant := range tenants.objects() {
				events, err := eventsAbout(ctx, tenant)
				g.Expect(err).NotTo(HaveOccurred())
				if len(events) == 0 {
					without = append(without, tenant.GetName())
					continue
				}
				g.Expect(events).To(HaveEach(1), tenant.GetName())
			}
			g.Expect(len(without)).To(BeNumerically("<=", 2), "no events about %v", without)
		})).
		Assess("each write came from the Pod that held the Lease, and admission was answered throughout",
			step(func(ctx context.Context, g *WithT) {
				u.judge(ctx, g, f, tenants)
			})).
		Teardown(teardown(func(ctx context.Context, g *WithT) {
			if tenants != nil {
				tenants.stop()
				remove(ctx, g, tenants.objects()...)
			}
			f.restore(ctx, g)
		})).
		Feature()
}

// judge follows the Lease from the old leader to the last.
func (u upgrade) judge(ctx context.Context, g *WithT, f *failing, tenants *load) {
	leader, err := shared.leader(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	f.holder = leader.Name
	_, leadership := f.leadership(ctx, g)
	released := releaseTime(leadership, f.lost, f.holder)
	f.firstReady = tenants.firstReadySince(released)
	lease, err := shared.lease(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	grown := int(*lease.Spec.LeaseTransitions - f.transitions)
	takeover{mode: u.mode, settings: u.settings, transitions: grown, released: true}.judge(ctx, g, f)

	acquired := 0
	for _, term := range leadership.Terms {
		if term.At.After(f.lost) && term.Holder != "" {
			acquired++
		}
	}
	g.Expect(grown).To(Equal(acquired), "the Lease counts each hand-over")
	// In the worst case the other old replica gets it first.
	g.Expect(grown).To(And(BeNumerically(">=", 1), BeNumerically("<=", 3)))
}

func TestEvictions(t *testing.T) {
	f := &failing{}
	testenv.Test(t, features.New("nodes are drained").
		Assess("one replica can be evicted", step(func(ctx context.Context, g *WithT) {
			f.prepare(ctx, g)
			f.cordonWorkers(ctx, g) // no replacement can be scheduled yet
			g.Expect(evict(ctx, f.standby.Name)).To(Succeed())
		})).
		Assess("the other cannot be evicted until there are two again", step(func(ctx context.Context, g *WithT) {
			g.Expect(evict(ctx, f.leader.Name)).To(Satisfy(apierrors.IsTooManyRequests))
			leader, err := shared.leader(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(podReady(leader)).To(BeTrue())
			f.undo(ctx, g)
			g.Expect(shared.settle(ctx)).To(Succeed())
			// If the leader lost its Lease on a slow machine, there is another.
			f.leader, err = shared.leader(ctx)
			g.Expect(err).NotTo(HaveOccurred())
		})).
		Assess("then it is evicted, and the new one leads", step(func(ctx context.Context, g *WithT) {
			f.lost = time.Now()
			g.Expect(evict(ctx, f.leader.Name)).To(Succeed())
			f.awaitHolder(ctx, g)
			f.createTenant(ctx, g)
			await(ctx, g, tenantReady(f.tenant), Succeed())
		})).
		Assess("each write came from the Pod that held the Lease, and admission was answered throughout",
			step(func(ctx context.Context, g *WithT) {
				sent, failures := f.admission.stop()
				g.Expect(sent).To(BeNumerically(">", 10))
				expectAnswered(g, failures, f.began)
				_, leadership := f.leadership(ctx, g)
				g.Expect(leadership.Strays).To(BeEmpty())
				g.Expect(leadership.Judged).To(BeNumerically(">", 0))
			})).
		Teardown(teardown(f.restore)).
		Feature())
}

// evict creates an Eviction, as `kubectl drain` does.
func evict(ctx context.Context, pod string) error {
	return shared.cluster.Clients().PolicyV1().Evictions(operatorNamespace).
		Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: pod}})
}
