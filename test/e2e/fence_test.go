package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/record"
)

const (
	fenceName = "leasehold-fence.leasehold.dev"
	// Ten times two RoleBindings each 200 ms are twice the leader's 50 requests a
	// second.
	fenceTenants  = 10
	takeAwayEvery = 200 * time.Millisecond
	adminBinding  = "leasehold:tenant-admin"
	// What a stopped worker was just about to do is chance.
	fenceRounds = 3
)

// The guard of the leader's clients sends nothing after its term, so a pause seldom gives the
// fence anything to deny. test/integration/manager holds a request on its way to show what the
// fence does, and what happens without it.
func TestFence(t *testing.T) {
	testenv.Test(t,
		features.New("a leader that is stopped past its Lease, behind the fence").
			Assess("has no late write accepted", step(func(ctx context.Context, g *WithT) {
				g.Eventually(fenceDenies).WithContext(ctx).WithTimeout(shortLease).WithPolling(poll).Should(BeTrue())
				var sum lateWrites
				for range fenceRounds {
					sum.add(lateRound(ctx, g))
				}
				shared.report.addFence(sum)
				g.Expect(sum.Accepted).To(BeZero())
			})).
			Teardown(teardown(removeFenceTenants)).
			Feature())
}

// fenceDenies sends requests as the operator's ServiceAccount, but from none of its Pods.
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

// lateRound stops the leader in the middle of its work, lets the standby lead and
// write, wakes the old leader, and returns what came of its late writes.
func lateRound(ctx context.Context, g *WithT) lateWrites {
	g.Expect(shared.settle(ctx)).To(Succeed())
	f := &failing{began: time.Now()}
	var err error
	f.leader, err = shared.leader(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	f.standby, err = shared.standby(ctx)
	g.Expect(err).NotTo(HaveOccurred())

	idle := keepBusy(ctx, g, f.began)
	defer idle()
	path, err := shared.cluster.AuditLog(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	mark, err := record.End(path)
	g.Expect(err).NotTo(HaveOccurred())
	f.lost = time.Now()
	g.Expect(shared.cluster.Signal(ctx, f.leader, operatorContainer, syscall.SIGSTOP)).To(Succeed())
	f.awaitHolder(ctx, g)
	g.Expect(f.holder).To(Equal(f.standby.Name))
	g.Eventually(func(g Gomega) { g.Expect(f.wrote(ctx, g, mark)).To(BeTrue()) }).
		WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
	// It wakes before the kubelet ends it: liveness fails after 5 s at the earliest,
	// and is followed by the preStop sleep. On a slow machine the round is void.
	if err := shared.cluster.Signal(ctx, f.leader, operatorContainer, syscall.SIGCONT); err != nil {
		shared.say("  the kubelet was faster: %v", err)
	}
	idle()
	f.awaitBack(ctx, g)

	late := f.late(ctx, g)
	shared.say("  late writes: %+v", late)
	removeFenceTenants(ctx, g)
	return late
}

// keepBusy creates Tenants and deletes their RoleBindings faster than the leader may create
// them again, until the result is called. No webhook handles these requests, so it goes on
// when the leader is stopped.
func keepBusy(ctx context.Context, g *WithT, began time.Time) (idle func()) {
	ctx, cancel := context.WithCancel(ctx)
	var taking sync.WaitGroup
	idle = func() {
		cancel()
		taking.Wait()
	}
	for i := range fenceTenants {
		tenant := newTenant(fmt.Sprintf("e2e-fence-%d-%d", began.UnixMilli(), i), "a", "b")
		g.Expect(shared.client.Create(ctx, tenant)).To(Succeed())
		taking.Go(func() {
			ticks := time.NewTicker(takeAwayEvery)
			defer ticks.Stop()
			for ctx.Err() == nil {
				for _, namespace := range tenant.Spec.Namespaces {
					binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Name + "-" + string(namespace),
						Name: adminBinding}}
					if err := shared.client.Delete(ctx, binding); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
						shared.say("  taking a RoleBinding away: %v", err)
					}
				}
				select {
				case <-ctx.Done():
				case <-ticks.C:
				}
			}
		})
	}
	// It has put some back: it works.
	g.Eventually(func(g Gomega) {
		var bindings rbacv1.RoleBindingList
		g.Expect(shared.client.List(ctx, &bindings)).To(Succeed())
		g.Expect(slices.ContainsFunc(bindings.Items, func(b rbacv1.RoleBinding) bool {
			return b.Name == adminBinding && strings.HasPrefix(b.Namespace, "e2e-fence-")
		})).To(BeTrue())
	}).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
	return idle
}

// wrote reports whether the new leader has written anything since the mark.
func (f *failing) wrote(ctx context.Context, g Gomega, mark record.Bookmark) bool {
	path, err := shared.cluster.AuditLog(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	events, _, err := record.ReadAuditLogFrom(path, mark)
	g.Expect(err).NotTo(HaveOccurred())
	return slices.ContainsFunc(operatorWrites(events, record.Succeeded),
		func(e auditv1.Event) bool { return podNameOf(e) == f.holder })
}

// late counts what the old leader sent after the new one had the Lease.
func (f *failing) late(ctx context.Context, g *WithT) lateWrites {
	events, leadership := f.leadership(ctx, g)
	var since time.Time
	for _, term := range leadership.Terms {
		if term.Holder == f.holder && term.At.After(f.lost) {
			since = term.At
			break
		}
	}
	g.Expect(since).NotTo(BeZero())
	var late lateWrites
	for _, w := range operatorWrites(events, record.Since(since)) {
		if podNameOf(w) != f.leader.Name || w.ResponseStatus == nil {
			continue
		}
		late.Sent++
		switch {
		case record.Succeeded(w):
			late.Accepted++
			shared.say("  accepted: %s %s: %d", w.Verb, w.RequestURI, w.ResponseStatus.Code)
		case w.ResponseStatus.Code == http.StatusConflict:
			late.Conflicts++
		case strings.Contains(w.ResponseStatus.Message, fenceName):
			late.Denied++
		default:
			shared.say("  refused otherwise: %s %s: %d %s", w.Verb, w.RequestURI, w.ResponseStatus.Code,
				w.ResponseStatus.Message)
		}
	}
	return late
}

// removeFenceTenants removes all that the rounds have made.
func removeFenceTenants(ctx context.Context, g *WithT) {
	var all v1beta1.TenantList
	g.Expect(shared.client.List(ctx, &all)).To(Succeed())
	var tenants []client.Object
	for i := range all.Items {
		if strings.HasPrefix(all.Items[i].Name, "e2e-fence-") {
			tenants = append(tenants, &all.Items[i])
		}
	}
	remove(ctx, g, tenants...)
	g.Expect(shared.settle(ctx)).To(Succeed())
}

// lateWrites are what a leader sent when another one had the Lease.
type lateWrites struct {
	Sent      int `json:"sent"`      // in all
	Denied    int `json:"denied"`    // by the fence
	Conflicts int `json:"conflicts"` // refused, as what they were to change had changed
	Accepted  int `json:"accepted"`
}

func (l *lateWrites) add(more lateWrites) {
	l.Sent += more.Sent
	l.Denied += more.Denied
	l.Conflicts += more.Conflicts
	l.Accepted += more.Accepted
}

func (r *report) addFence(l lateWrites) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Fence = append(r.Fence, l)
}

func (r *report) fenceTable(b *strings.Builder) {
	b.WriteString("\n## Late writes of a leader that was stopped past its Lease\n\n| sent | denied | conflicts | accepted |\n|---|---|---|---|\n")
	for _, l := range r.Fence {
		fmt.Fprintf(b, "| %d | %d | %d | %d |\n", l.Sent, l.Denied, l.Conflicts, l.Accepted)
	}
}
