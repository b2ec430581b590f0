// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

func TestReplica_RestartsItsProcess(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t)
	w, r := s.processes[0], s.replicas[0]
	r.kill()
	g.Eventually(w.starts, testTimeout).Should(Equal(2))
	g.Eventually(r.lifetimes, testTimeout).Should(HaveLen(2))
	w.exits <- 1 // by itself
	g.Eventually(r.lifetimes, testTimeout).Should(HaveLen(3))
	lives := r.lifetimes()
	g.Expect(lives[0].Killed).To(BeTrue())
	g.Expect(lives[1].Killed).To(BeFalse())
	g.Expect(lives[1].Exit).To(Equal(1))
	g.Expect(lives[2].Ended).To(BeZero())
	// Of both workers, without the one that had been killed by then.
	g.Expect(s.historySince(lives[1].Started).Replicas).To(HaveLen(3))
	g.Expect(s.historySince(lives[0].Started).Replicas).To(HaveLen(4))
}

// A process that starts fast may be ready again before the next probe. Its answers are its own.
func TestReplica_SeparatesTheProbesOfItsProcesses(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	r := s.replicas[0]
	prober := record.Probe(t.Context(), s.clock,
		record.ProbeTarget{Name: "one", Ready: server.URL, Timeout: testTimeout})
	r.mu.Lock()
	r.prober = prober
	r.mu.Unlock()
	ready := func() (all []history.Probe) {
		for _, p := range s.historySince(time.Time{}).Probes {
			if p.Request == history.Ready {
				all = append(all, p)
			}
		}
		return all
	}
	g.Eventually(ready, testTimeout).Should(HaveLen(1))
	r.kill()
	g.Eventually(ready, testTimeout).Should(HaveLen(2), "of each process")
	lives := r.lifetimes()
	g.Expect(lives).To(HaveLen(2))
	g.Expect(ready()[0].Last).To(BeTemporally("<=", lives[1].Started))
	g.Expect(ready()[1].First).To(BeTemporally(">=", lives[1].Started))
}

// A replica is probed until it is ready, and again when the Lease has been renewed: it may have ended since.
func TestWaitUntilReady_ProbesAgain(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.renewInBackground()
	probes := 0
	s.processes[1].ready = func() error {
		if probes++; probes == 2 || probes == 3 {
			return errors.New("it starts again")
		}
		return nil
	}
	g.Expect(s.waitUntilReady(t.Context())).To(Succeed())
	g.Expect(probes).To(Equal(5), "once, until it is ready again, and at the end")
}

// A replica that ends whenever it leads is ready between its ends, and the Lease has no holder.
func TestWaitUntilReady_NamesReplicasThatEnd(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.processes[0].exits <- 3
	g.Eventually(s.replicas[0].lifetimes, testTimeout).Should(HaveLen(2))
	s.replicas[1].kill()
	g.Eventually(s.replicas[1].lifetimes, testTimeout).Should(HaveLen(2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(s.waitUntilReady(ctx)).To(MatchError(And(
		ContainSubstring("replica %s has ended by itself 1 times, the last time with exit code 3", s.processes[0].name),
		Not(ContainSubstring("replica "+s.processes[1].name)))))
}

func TestReportLongTerm(t *testing.T) {
	for _, tc := range []struct {
		seconds  int32
		released bool
		reports  types.GomegaMatcher
	}{
		{15, false, BeEmpty()},
		{16, false, ConsistOf(ContainSubstring("the Lease lasts 16s"))},
		{16, true, BeEmpty()},
	} {
		g := NewWithT(t)
		s := newElection(t)
		lease, err := s.readLease(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		lease.Spec.LeaseDurationSeconds = new(tc.seconds)
		g.Expect(s.client.Update(t.Context(), lease)).To(Succeed())
		var texts []string
		s.subject.Operator.Report = func(text string) { texts = append(texts, text) }
		s.subject.ReleaseLease = tc.released
		s.reportLongTerm(t.Context())
		g.Expect(texts).To(tc.reports)
	}
}

func TestHasWork_NeedsAFreshReading(t *testing.T) {
	g := NewWithT(t)
	run := newExecution(t, interceptor.Funcs{})
	r := addProbed(t, run, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "controller_runtime_reconcile_total 3\n")
	})
	g.Expect(run.hasWork(time.Now().Add(-time.Hour))).To(BeFalse())
	g.Eventually(func() bool { _, _, known := r.workload(); return known }, testTimeout).Should(BeTrue())
	r.prober.Stop()
	g.Expect(run.hasWork(time.Now())).To(BeTrue(), "work may have come since")
	r.prober.Restart()
	g.Expect(run.hasWork(time.Now())).To(BeFalse(), "of the next process it is not known")
}
