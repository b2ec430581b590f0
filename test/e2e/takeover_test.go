// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/leasehold"
)

// takeover is a way to lose the leader, with the expected effects.
type takeover struct {
	mode, settings string
	// lose makes the leader fail, sets f.lost, and registers how to heal the fault.
	lose func(ctx context.Context, g *WithT, f *failing)
	// transitions is the increase of leaseTransitions, which is 0 in a new Lease.
	transitions int
	fresh       bool
	// released: the leader releases the Lease, and the times count from the release.
	released bool
	// expires is how long the lost leader's Lease lasts if there is no evidence of its end: another
	// replica leads no earlier than that after the last renewal.
	expires time.Duration
	// refusedFor is how long after the loss webhook calls may fail, because the Service still
	// selects the lost Pod.
	refusedFor time.Duration
}

// How long the Service selects a Pod that cannot answer.
const (
	// After a process has exited, the kubelet detects it and reports the Pod as not ready, and
	// kube-proxy updates the node.
	crashNoticed = 5 * time.Second
	// Three readiness probes of one second have to time out first.
	wedgeNoticed = 10 * time.Second
	// The node controller detects a node that hangs after 50 s; the features end sooner.
	nodeHangs = time.Minute
)

// feature loses the leader and tests the effects.
func (to takeover) feature() features.Feature {
	f := &failing{}
	return features.New("the leader is lost: "+to.mode).
		Assess("the standby takes over", step(func(ctx context.Context, g *WithT) {
			f.prepare(ctx, g)
			to.lose(ctx, g, f)
			f.createTenant(ctx, g)
			f.awaitHolder(ctx, g)
			g.Expect(f.holder).To(Equal(f.standby.Name))
		})).
		Assess("and makes a Tenant created in the gap Ready", step(func(ctx context.Context, g *WithT) {
			g.Eventually(tenantReady(f.tenant)).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
			f.firstReady = time.Now()
		})).
		Assess("the Lease counts the transition", step(func(ctx context.Context, g *WithT) {
			lease, err := shared.lease(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			if to.fresh {
				g.Expect(string(lease.UID)).NotTo(Equal(f.lease))
				f.transitions = 0
			} else {
				g.Expect(string(lease.UID)).To(Equal(f.lease))
			}
			g.Expect(*lease.Spec.LeaseTransitions).To(BeEquivalentTo(f.transitions + int32(to.transitions)))
		})).
		Assess("the former leader returns as a standby", step(func(ctx context.Context, g *WithT) {
			f.undo(ctx, g)
			f.awaitBack(ctx, g)
			leader, err := shared.leader(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(leader.Name).To(Equal(f.standby.Name))
		})).
		Assess("each event was emitted once", step(func(ctx context.Context, g *WithT) {
			g.Expect(eventsAbout(ctx, f.tenant)).To(And(HaveKey(ContainSubstring(v1beta1.EventNamespaceCreated)), HaveEach(1)))
		})).
		Assess("each write came from the Pod that held the Lease, and admission was answered",
			step(func(ctx context.Context, g *WithT) {
				to.judge(ctx, g, f)
			})).
		Teardown(teardown(f.restore)).
		Feature()
}

// prepare waits for two settled replicas and starts requests to the webhooks.
func (f *failing) prepare(ctx context.Context, g *WithT) {
	g.Expect(shared.settle(ctx)).To(Succeed())
	f.began = time.Now()
	var err error
	f.leader, err = shared.leader(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	f.standby, err = shared.standby(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	lease, err := shared.lease(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	f.transitions, f.lease = *lease.Spec.LeaseTransitions, string(lease.UID)
	f.admission, err = startAdmission(ctx)
	g.Expect(err).NotTo(HaveOccurred())
}

// createTenant retries until admission succeeds.
func (f *failing) createTenant(ctx context.Context, g *WithT) {
	tenant := newTenant(fmt.Sprintf("e2e-gap-%d", f.lost.UnixMilli()), "a", "b")
	g.Eventually(shared.client.Create).WithContext(ctx).WithArguments(tenant).WithTimeout(readyTimeout).WithPolling(poll).
		Should(Succeed())
	f.tenant = tenant
}

// awaitBack waits until there are two replicas again and the process that led has ended.
func (f *failing) awaitBack(ctx context.Context, g *WithT) {
	g.Eventually(func(g Gomega) {
		g.Expect(shared.settled(ctx)).To(Succeed())
		pods, err := shared.pods(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		for i := range pods {
			if pods[i].UID == f.leader.UID {
				g.Expect(containerIDOf(&pods[i])).NotTo(Equal(containerIDOf(f.leader)), "the process that led still runs")
			}
		}
	}).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
}

func containerIDOf(p *corev1.Pod) string {
	for _, status := range p.Status.ContainerStatuses {
		if status.Name == operatorContainer {
			return status.ContainerID
		}
	}
	return ""
}

// restore heals all faults, also after a failed feature.
func (f *failing) restore(ctx context.Context, g *WithT) {
	if f.admission != nil {
		f.admission.stop()
	}
	f.undo(ctx, g)
	if f.tenant != nil {
		remove(ctx, g, f.tenant)
	}
	g.Expect(shared.settle(ctx)).To(Succeed())
}

// eventsAbout counts the events about an object, by reason and note.
func eventsAbout(ctx context.Context, o client.Object) (map[string]int, error) {
	events, err := expect.EventsAbout(shared.client, o)(ctx)
	counts := map[string]int{}
	for _, e := range events {
		times := 1
		if e.Series != nil {
			times = int(e.Series.Count)
		}
		counts[e.Reason+": "+e.Note] += times
	}
	return counts, err
}

// judge reads the audit log: the times for the report, and the author of each write.
func (to takeover) judge(ctx context.Context, g *WithT, f *failing) {
	ticks := int(time.Since(f.began) / admissionEvery)
	sent, failures := f.admission.stop()
	f.admission = nil
	events, leadership := f.leadership(ctx, g)
	lost := f.lost
	if to.released {
		lost = releaseTime(leadership, f.lost, f.holder)
	}
	newHolder, firstWrite, took := 0.0, 0.0, false
	for _, term := range leadership.Terms {
		if took = term.Holder == f.holder && !term.At.Before(lost); took {
			newHolder = term.At.Sub(lost).Seconds()
			break
		}
	}
	for _, w := range operatorWrites(events, record.Since(lost), record.Succeeded) {
		if record.PodOf(w) == f.holder {
			firstWrite = w.StageTimestamp.Sub(lost).Seconds()
			break
		}
	}
	shared.report.add(failovers, "%s | %s | %.1f | %.1f | %.1f | %d | %d of %d", to.mode, to.settings, newHolder,
		firstWrite, f.firstReady.Sub(lost).Seconds(), to.transitions, len(failures), sent)
	for _, refused := range failures {
		shared.logf("  %s: not answered: %s", to.mode, refused)
	}

	g.Expect(leadership.Strays).To(BeEmpty())
	g.Expect(leadership.Undecided).To(BeEmpty())
	g.Expect(leadership.Judged).To(BeNumerically(">", 0))
	g.Expect(took).To(BeTrue(), "%s took the Lease after the loss", f.holder)
	g.Expect(firstWrite).To(BeNumerically(">=", newHolder), "a replica writes only while it leads")
	if to.expires > 0 {
		g.Expect(lapse(events, f.leader.Name, f.holder, f.lost)).To(BeNumerically(">=", to.expires), "the Lease had expired")
	}
	// A busy machine skips ticks.
	g.Expect(sent).To(BeNumerically(">", ticks/2), "requests were sent throughout")
	until := f.lost.Add(to.refusedFor)
	if ends := f.woken.Add(crashNoticed); ends.After(until) {
		until = ends
	}
	expectAnswered(g, failures, until)
}

// releaseTime returns when the Lease was last released before the holder took it. In a rolling
// upgrade there may be other holders in between.
func releaseTime(l leasehold.Leadership, after time.Time, holder string) time.Time {
	last := after
	for _, term := range l.Terms {
		switch {
		case !term.At.After(after):
		case term.Holder == "":
			last = term.At
		case term.Holder == holder:
			return last
		}
	}
	return last
}

// lapse returns the time from the former leader's last renewal to the takeover after the loss, both
// from the Lease. All nodes have this machine's clock.
func lapse(events []auditv1.Event, from, to string, lost time.Time) (time.Duration, error) {
	var renewed, acquired time.Time
	for _, e := range record.Select(events, record.Verb("create", "update"),
		record.Resource(coordinationv1.GroupName, "leases"),
		record.InNamespace(operatorNamespace), record.Named(leaseName), record.Succeeded) {
		var lease coordinationv1.Lease
		if err := json.Unmarshal(e.ResponseObject.Raw, &lease); err != nil {
			return 0, fmt.Errorf("decoding the answer to the %s of the Lease at %s: %w", e.Verb, e.StageTimestamp, err)
		}
		switch holder := holderOf(&lease); {
		case holder == from && lease.Spec.RenewTime.After(renewed):
			renewed = lease.Spec.RenewTime.Time
		case holder == to && lease.Spec.AcquireTime.After(lost) && acquired.IsZero():
			acquired = lease.Spec.AcquireTime.Time
		}
	}
	if renewed.IsZero() || acquired.IsZero() {
		return 0, fmt.Errorf("the audit log has no takeover by %s from %s", to, from)
	}
	return acquired.Sub(renewed), nil
}

// leadership judges all writes of the operator since the feature began. Events are written
// asynchronously, so they may arrive after the release.
func (f *failing) leadership(ctx context.Context, g *WithT) ([]auditv1.Event, leasehold.Leadership) {
	path, err := shared.cluster.AuditLog(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	events, err := record.ReadAuditLog(path)
	g.Expect(err).NotTo(HaveOccurred())
	found, err := leasehold.JudgeWrites(events, operatorWrites(events, record.Since(f.began), record.Succeeded))
	g.Expect(err).NotTo(HaveOccurred())
	return events, found
}

// operatorWrites returns the operator's writes to the objects that it manages.
func operatorWrites(events []auditv1.Event, also ...record.Filter) []auditv1.Event {
	return record.Writes(events, operatorUser, append(also,
		record.Not(record.Resource("coordination.k8s.io", "leases")),
		record.Not(record.Resource("events.k8s.io", "events")))...)
}
