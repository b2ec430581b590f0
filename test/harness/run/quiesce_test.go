// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/scenario"
)

// newStoppedExecution is an execution with its clock, which stands still.
func newStoppedExecution(t *testing.T) (*execution, *clocktesting.FakeClock) {
	t.Helper()
	run, c := newExecution(t, interceptor.Funcs{}), clocktesting.NewFakeClock(time.Now())
	run.prover.clock = c
	return run, c
}

// idle waits in the background until the operator is idle. Its last known write was quietPeriod ago.
func (ex *execution) idle(t *testing.T, q scenario.Quiesce, limit time.Duration) <-chan error {
	t.Helper()
	now := ex.prover.clock.Now()
	return inBackground(func() error { return ex.waitForIdle(t.Context(), q, now.Add(-quietPeriod), now.Add(limit)) })
}

// A checkpoint may need a longer silence, which counts from the last action too.
func TestWaitForIdle_OfItsOwn(t *testing.T) {
	for name, tc := range map[string]struct{ acted, waits time.Duration }{
		"SinceTheLastWrite":  {-time.Hour, 9 * time.Second},
		"SinceTheLastAction": {0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run, c := newStoppedExecution(t)
			run.actionTimes = []time.Time{c.Now().Add(tc.acted)}
			done := run.idle(t, scenario.Quiesce{Idle: metav1.Duration{Duration: 10 * time.Second}}, time.Hour)
			g.Consistently(done, 3*pollInterval).ShouldNot(Receive())
			c.Step(tc.waits - time.Millisecond)
			g.Consistently(done, 3*pollInterval).ShouldNot(Receive())
			c.Step(time.Millisecond)
			g.Eventually(done, testTimeout).Should(Receive(BeNil()))
		})
	}
}

func TestWaitForIdle_IgnoresOtherWriters(t *testing.T) {
	for name, tc := range map[string]struct {
		user, group, resource string
		waits                 bool
	}{
		"TheOperator":  {operator, "", "things", true},
		"ItsLease":     {operator, coordinationv1.GroupName, "leases", false},
		"SomebodyElse": {"alice", "", "things", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run, c := newStoppedExecution(t)
			event := auditv1.Event{
				Stage: auditv1.StageResponseComplete, Verb: "patch", StageTimestamp: metav1.NewMicroTime(c.Now()),
				ObjectRef: &auditv1.ObjectReference{APIGroup: tc.group, Resource: tc.resource, Namespace: "ns", Name: "lease"},
			}
			event.User.Username = tc.user
			line, err := json.Marshal(event)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.WriteFile(run.prover.auditLog, append(line, '\n'), 0o600)).To(Succeed())
			done := run.idle(t, scenario.Quiesce{}, testTimeout)
			if tc.waits {
				c.Step(quietPeriod - time.Millisecond)
				g.Consistently(done, 10*pollInterval).ShouldNot(Receive())
				c.Step(time.Millisecond)
			}
			g.Eventually(done, testTimeout).Should(Receive(BeNil()))
		})
	}
}

func TestWaitForIdle_EndsAtTheDeadline(t *testing.T) {
	g := NewWithT(t)
	run := newExecution(t, interceptor.Funcs{})
	run.prover.auditLog = filepath.Join(t.TempDir(), "none")
	g.Expect(run.waitForIdle(t.Context(), scenario.Quiesce{}, time.Now(), time.Now())).
		To(MatchError(ContainSubstring("waiting for the operator to rest")))
	g.Expect(os.WriteFile(run.prover.auditLog, nil, 0o600)).To(Succeed())
	g.Expect(run.waitForIdle(t.Context(), scenario.Quiesce{}, time.Now(), time.Now().Add(-time.Hour))).To(Succeed())
}

// whileTimePasses returns a function that moves the clock. The replicas may recover after a step of
// the clock, and one more is needed then.
func whileTimePasses(c *clocktesting.FakeClock, done <-chan error) func() <-chan error {
	return func() <-chan error {
		c.Step(quietPeriod)
		return done
	}
}

func TestWaitForRest_PausesForANewLeader(t *testing.T) {
	for name, tc := range map[string]struct {
		recovery time.Duration
		seen     int  // effects of the fault that a checkpoint has observed
		elected  bool // without a fault
		again    bool // another fault begins and ends while the operator settles
		pauses   bool
	}{
		// The pause begins when it leads, however long that took.
		"Recovered": {recovery: 10 * time.Second, pauses: true},
		// As in clean runs: the checkpoint before has waited for the leader that the fault brought.
		"Seen": {seen: 1},
		// Whatever elected the leader since the last recovery: it has not written yet.
		"Elected": {elected: true, pauses: true},
		"Again":   {again: true, pauses: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newElection(t)
			s.stopClock()
			s.renewInBackground()
			var recovered sync.Once
			s.beforeRead(func(client.Client) { recovered.Do(func() { s.stopped.Step(tc.recovery) }) })
			run := &execution{prover: s.Prover, leader: "host_2"}
			if !tc.elected {
				run.leader, run.activeFault, run.effects = "", s.inject("crash-after-write"), tc.seen
				run.activeFault.beginOngoing()() // another replica may lead since
			}
			done := inBackground(func() error {
				_, _, err := run.waitForRest(t.Context(), scenario.Quiesce{})
				return err
			})
			for range 2 { // the Lease, and that it is renewed
				s.Eventually(s.requests).Should(Receive(Equal("PUT " + leasePath)))
			}
			if tc.again {
				run.activeFault.beginOngoing()()
				s.stopped.Step(2 * quietPeriod)
			}
			if !tc.pauses {
				s.Eventually(done).Should(Receive(BeNil()), "no time passes")
				return
			}
			s.Consistently(done, 10*pollInterval).ShouldNot(Receive())
			s.Eventually(whileTimePasses(s.stopped, done)).Should(Receive(BeNil()))
		})
	}
}

// addProbed adds a replica with these metrics.
func addProbed(t *testing.T, run *execution, metrics http.HandlerFunc) *replica {
	t.Helper()
	server := httptest.NewServer(metrics)
	t.Cleanup(server.Close)
	r := &replica{prober: record.Probe(t.Context(), clock.RealClock{},
		record.ProbeTarget{Name: "one", Metrics: strings.TrimPrefix(server.URL, "http://"), Timeout: testTimeout})}
	t.Cleanup(r.prober.Stop)
	run.prover.replicas = append(run.prover.replicas, r)
	return r
}

// Work that waits or is done keeps a checkpoint from beginning, without any write.
func TestWaitForIdle_WaitsForWork(t *testing.T) {
	for name, tc := range map[string]struct {
		metrics string
		hostile []string
		waits   bool
	}{
		"Queued":     {metrics: "workqueue_depth 1", waits: true},
		"Running":    {metrics: "controller_runtime_active_workers 1", waits: true},
		"Unfinished": {metrics: "workqueue_unfinished_work_seconds 0.5", waits: true},
		"Idle":       {metrics: "workqueue_depth 0"},
		"Unknown":    {},
		"OfAnAttack": {metrics: "workqueue_depth 1", hostile: []string{"hostile"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run := newExecution(t, interceptor.Funcs{})
			run.hostileNamespaces = tc.hostile
			var metrics atomic.Value
			metrics.Store(tc.metrics)
			r := addProbed(t, run, func(w http.ResponseWriter, _ *http.Request) {
				if text := metrics.Load(); text != "" {
					_, _ = fmt.Fprintf(w, "controller_runtime_reconcile_total 3\n%s\n", text)
				}
			})
			if tc.metrics != "" {
				g.Eventually(func() []history.Probe { return r.prober.Since(time.Time{}) }, testTimeout).ShouldNot(BeEmpty())
			}
			began, done := time.Now(), run.idle(t, scenario.Quiesce{}, testTimeout)
			if tc.waits {
				g.Consistently(done, 10*pollInterval).ShouldNot(Receive())
				metrics.Store("workqueue_depth 0")
			}
			g.Eventually(done, testTimeout).Should(Receive(BeNil()))
			g.Expect(time.Since(began)).To(BeNumerically("<", testTimeout))
		})
	}
}

// A checkpoint waits for the end of terminating objects and for minReadySeconds, but not for ever, and not for
// the objects of its conditions.
func TestWaitForIdle_WaitsForUnsettledObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		until     []scenario.Wait
		gone      bool
		workload  bool // it has a ready Pod that is not available yet
		available bool // the Pod becomes available
		waits     time.Duration
	}{
		"Gone":        {gone: true, waits: quietPeriod},
		"Kept":        {waits: unsettledTimeout + quietPeriod},
		"Available":   {workload: true, available: true, waits: quietPeriod},
		"Unavailable": {workload: true, waits: unsettledTimeout + quietPeriod},
		"Awaited":     {until: []scenario.Wait{{Object: scenario.Ref{APIVersion: "example.com/v1", Kind: "Thing", Name: "a"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run, c := newStoppedExecution(t)
			things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
			store := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{things: "ThingList"})
			store.PrependReactor("list", "things", func(kubetesting.Action) (bool, runtime.Object, error) {
				list := &unstructured.UnstructuredList{}
				list.SetResourceVersion("1")
				return true, list, nil
			})
			events := watch.NewFake()
			store.PrependWatchReactor("things", kubetesting.DefaultWatchReactor(events, nil))
			var err error
			run.watcher, err = record.Watch(t.Context(), store, c, nil, things)
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(run.watcher.Stop)
			thing := objectOf(scenario.Ref{APIVersion: "example.com/v1", Kind: "Thing", Name: "a"})
			thing.SetUID("a-uid")
			thing.SetResourceVersion("2")
			if tc.workload {
				thing.Object["spec"] = map[string]any{"minReadySeconds": int64(5)}
				thing.Object["status"] = map[string]any{"readyReplicas": int64(1)}
			} else {
				thing.SetDeletionTimestamp(new(metav1.Now()))
			}
			events.Add(thing)
			g.Eventually(run.watcher.Unsettled, testTimeout).Should(HaveLen(1))
			now, done := c.Now(), run.idle(t, scenario.Quiesce{Until: tc.until}, time.Hour)
			if tc.waits > 0 {
				g.Consistently(done, 10*pollInterval).ShouldNot(Receive())
			}
			thing = thing.DeepCopy()
			thing.SetResourceVersion("3")
			switch {
			case tc.gone:
				events.Delete(thing)
			case tc.available:
				g.Expect(unstructured.SetNestedField(thing.Object, int64(1), "status", "availableReplicas")).To(Succeed())
				events.Modify(thing)
			}
			if tc.gone || tc.available {
				g.Eventually(run.watcher.Unsettled, testTimeout).Should(BeEmpty())
			}
			c.Step(tc.waits)
			g.Eventually(func() <-chan error { c.Step(quietPeriod / 10); return done }, testTimeout).Should(Receive(BeNil()))
			g.Expect(c.Since(now)).To(BeNumerically(">=", tc.waits))
			g.Expect(c.Since(now)).To(BeNumerically("<", time.Hour))
		})
	}
}

// onLatestVersion calls do where the version of the store is read.
func (s *testbed) onLatestVersion(do func() (int64, error)) {
	client := dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme)
	client.PrependReactor("list", "namespaces", func(kubetesting.Action) (bool, runtime.Object, error) {
		version, err := do()
		list := &unstructured.UnstructuredList{}
		list.SetResourceVersion(strconv.FormatInt(version, 10))
		return true, list, err
	})
	s.dynamic = client
}

// A state that is lost before the end of a checkpoint was not at rest.
func TestQuiesce_FindsAStateThatDoesNotLast(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.renewInBackground()
	lost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lost"}}
	g.Expect(s.client.Create(t.Context(), lost)).To(Succeed())
	s.onLatestVersion(func() (int64, error) { return 7, client.IgnoreNotFound(s.client.Delete(t.Context(), lost)) })
	there := scenario.Wait{Exists: true, Object: refTo("lost")}
	mark, err := s.newExecution().quiesce(t.Context(), "made",
		scenario.Quiesce{Until: []scenario.Wait{there}, For: metav1.Duration{Duration: time.Millisecond}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(mark.Converged).To(BeFalse())
	g.Expect(mark.Reached).NotTo(BeZero())
	g.Expect(mark.Unmet).To(ConsistOf(ContainSubstring("lost")))
}

// The first writes of a leader that no fault made belong to no checkpoint.
func TestQuiesce_BeginsAgainAfterAnElection(t *testing.T) {
	for name, tc := range map[string]struct {
		elections, observations int
		settling                bool // the elections come before the observations begin
	}{
		"None": {0, 1, false}, "One": {1, 2, false}, "Always": {100, maxObservations, false},
		"WhileItSettles": {1, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			s.stopClock()
			var leader, reads atomic.Int64
			s.beforeRead(func(store client.Client) { s.renewLease(store, int(leader.Load())) })
			// An observation reads the version of the store at its beginning and at its end.
			s.onLatestVersion(func() (int64, error) {
				read := reads.Add(1)
				if observation := (read + 1) / 2; (read%2 != 0) == tc.settling && observation <= int64(tc.elections) {
					leader.Store(observation % 2)
				}
				return read, nil
			})
			var mark history.Checkpoint
			done := inBackground(func() (err error) {
				mark, err = s.newExecution().quiesce(t.Context(), "made", scenario.Quiesce{})
				return err
			})
			g.Eventually(whileTimePasses(s.stopped, done), testTimeout).Should(Receive(BeNil()))
			g.Expect(mark.From).To(BeEquivalentTo(2*tc.observations-1), "the last observation counts")
			g.Expect(reads.Load()).To(BeEquivalentTo(2 * tc.observations))
		})
	}
}

// Silence without a renewal proves nothing, so a checkpoint lasts until the Lease is renewed or expires.
func TestQuiesce_LastsUntilTheLeaseIsRenewed(t *testing.T) {
	for name, goOn := range map[string]func(*testbed){
		"Late":  func(s *testbed) { s.lead(0) },
		"Never": func(s *testbed) { s.stopped.Step(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newElection(t)
			s.stopClock()
			var observing atomic.Bool
			s.beforeRead(func(store client.Client) {
				if !observing.Load() {
					s.renewLease(store, 0)
				}
			})
			s.onLatestVersion(func() (int64, error) { observing.Store(true); return 7, nil })
			done := inBackground(func() error {
				_, err := s.newExecution().quiesce(t.Context(), "made", scenario.Quiesce{})
				return err
			})
			g.Eventually(observing.Load, testTimeout).Should(BeTrue())
			advance(s.t, s.stopped, time.Millisecond) // the time that the checkpoint lasts at least
			g.Consistently(done, 10*pollInterval).ShouldNot(Receive())
			goOn(s)
			g.Eventually(done, testTimeout).Should(Receive(BeNil()))
		})
	}
}
