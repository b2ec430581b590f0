// SPDX-License-Identifier: Apache-2.0

package counts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/integration/internal/operator"
)

// quiet is the time without requests after which the operator is idle. A reconcile with a late
// cache is repeated after 200 ms.
const quiet = 400 * time.Millisecond

// controllers are the operator's, by their names in metrics.
var controllers = []string{"tenant", "storagebucket", "markdownview"}

// step is one change with its effects. The operator becomes idle between two steps.
type step = func(context.Context)

// phase is a group of steps that are counted together.
type phase struct {
	name string
	// why is the reason for the phase's requests, for the golden file.
	why   string
	steps []step
}

// then combines two steps without a pause between them.
func then(first, second step) step {
	return func(ctx context.Context) {
		first(ctx)
		second(ctx)
	}
}

// counter runs phases and records the position of each in the audit log.
type counter struct {
	clock clock.PassiveClock
	// killed is the replica that the suite has killed.
	killed *env.Replica

	events   []auditv1.Event // up to the bookmark
	bookmark record.Bookmark
	spans    []span
}

// span is the range of a phase's events.
type span struct {
	phase
	from, to   int
	reconciles map[string]int
}

// count runs phases, and waits until the operator is idle after each step.
func (c *counter) count(ctx context.Context, phases ...phase) {
	GinkgoHelper()
	for _, next := range phases {
		By(next.name)
		from, before := len(c.events), c.work(ctx)
		for _, step := range next.steps {
			step(ctx)
			c.rest(ctx)
		}
		c.spans = append(c.spans, span{phase: next, from: from, to: len(c.events), reconciles: c.work(ctx).since(before)})
	}
}

// tally counts the requests of the phases.
func (c *counter) tally() (all []phaseCost) {
	GinkgoHelper()
	// The versions before and after a write show whether it had an effect.
	h, err := record.FromAudit(c.events)
	Expect(err).NotTo(HaveOccurred())
	effects := map[string]history.Effect{}
	for _, r := range h.Requests {
		effects[r.ID] = r.Effect
	}
	for _, s := range c.spans {
		exact, timed := tally(c.events[s.from:s.to], effects)
		for controller, n := range s.reconciles {
			if n > 0 {
				timed["reconcile "+controller] = n
			}
		}
		all = append(all, phaseCost{s.name, cost{Why: s.why, Counts: exact, AtMost: timed}})
	}
	return all
}

// requests lists the counted requests of a phase.
func (c *counter) requests(name string) string {
	var text strings.Builder
	fmt.Fprintln(&text, name)
	s := c.spans[slices.IndexFunc(c.spans, func(s span) bool { return s.name == name })]
	for _, e := range c.events[s.from:s.to] {
		if key, ok := keyOf(e); ok {
			fmt.Fprintf(&text, "  %s %s %s/%s\n", e.RequestReceivedTimestamp.UTC().Format("15:04:05.000000"), key,
				e.ObjectRef.Namespace, e.ObjectRef.Name)
		}
	}
	return text.String()
}

// rest waits until the operator has sent no counted request, has not reconciled and has had an
// empty queue for quiet.
func (c *counter) rest(ctx context.Context) {
	GinkgoHelper()
	last, before := c.clock.Now(), work(nil)
	Eventually(func() error {
		events, end := suite.Events(c.bookmark)
		c.events, c.bookmark = append(c.events, events...), end
		now := c.work(ctx)
		busy := slices.ContainsFunc(events, func(e auditv1.Event) bool { _, ok := keyOf(e); return ok })
		if busy || before == nil || now.queued() || now.sum() != before.sum() {
			last = c.clock.Now()
		}
		before = now
		if c.clock.Since(last) < quiet {
			return errors.New("the operator is at work")
		}
		return nil
	}).WithContext(ctx).WithTimeout(expect.Long).WithPolling(expect.Poll / 2).Should(Succeed())
}

// work has the completed and the queued work of the running replicas, by name.
type work map[string]struct {
	reconciles map[string]int // by controller
	queued     int
}

// work reads the metrics of the replicas. The counts are invalid if a replica ended during the spec.
func (c *counter) work(ctx context.Context) work {
	GinkgoHelper()
	all := work{}
	for _, r := range suite.Replicas() {
		if r == c.killed {
			continue
		}
		Expect(r.Running()).To(BeTrue(), "replica %s ended by itself; the end of its log:\n%s", r.Name(), r.LogTail(20))
		metrics, one := operator.MetricsOf(ctx, r), all[r.Name()]
		one.reconciles = map[string]int{}
		for _, name := range controllers {
			one.reconciles[name] = sum(metrics, "controller_runtime_reconcile_total", "controller", name)
			// The queue of a standby holds all objects.
			if sum(metrics, "leader_election_master_status", "name", "manager.leasehold.dev") == 1 {
				one.queued += sum(metrics, "workqueue_depth", "name", name) + sum(metrics, "controller_runtime_active_workers",
					"controller", name)
			}
		}
		all[r.Name()] = one
	}
	return all
}

// sum adds the series of a metric with this label.
func sum(metrics, name, label, value string) (total int) {
	GinkgoHelper()
	for line := range strings.Lines(metrics) {
		series, number, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(series, name+"{") && strings.Contains(series, fmt.Sprintf("%s=%q", label, value)) {
			n, err := strconv.ParseFloat(number, 64)
			Expect(err).NotTo(HaveOccurred())
			total += int(n)
		}
	}
	return total
}

func (w work) queued() bool {
	for _, one := range w {
		if one.queued > 0 {
			return true
		}
	}
	return false
}

func (w work) sum() (sum int) {
	for _, one := range w {
		for _, n := range one.reconciles {
			sum += n
		}
	}
	return sum
}

// since counts reconciles by controller. A restarted process counts from zero.
func (w work) since(before work) map[string]int {
	done := map[string]int{}
	for name, one := range w {
		for controller, n := range one.reconciles {
			if was := before[name].reconciles[controller]; was <= n {
				n -= was
			}
			done[controller] += n
		}
	}
	return done
}

// awaitReconciles waits for this number of further reconciles of the leader.
func (c *counter) awaitReconciles(ctx context.Context, more int, before work, of ...string) {
	GinkgoHelper()
	Eventually(func() error {
		done := c.work(ctx).since(before)
		for _, controller := range of {
			if n := done[controller]; n < more {
				return fmt.Errorf("controller %s has reconciled %d times, want %d", controller, n, more)
			}
		}
		return nil
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
}
