package run

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/scenario"
)

var (
	things = history.Resource{Group: "example.com", Resource: "things"}
	lease  = history.Key{Resource: history.Leases, Namespace: "ns", Name: "lease"}
)

const operator = "system:serviceaccount:ns:operator"

// What was is forgotten when a run begins, but it is known who leads.
func TestARunBeginsAfresh(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.random = rand.New(rand.NewPCG(1, 2))
	s.auditLog = filepath.Join(t.TempDir(), "audit.log")
	g.Expect(os.WriteFile(s.auditLog, nil, 0o600)).To(Succeed())
	third, err := s.add(t.Context(), unlike{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.remove(t.Context(), third)).To(Succeed())
	g.Expect(s.told(time.Time{}).Replicas).To(HaveLen(3))
	s.patch(t, 0, "/things/old")
	s.elects(t)
	g.Expect(s.renewer()).To(BeIdenticalTo(s.replicas[1]), "it led in the run before")
	for _, r := range s.replicas {
		g.Eventually(func() time.Time { return r.proxy.Journal().Requests[0].Done }, eventually).ShouldNot(BeZero())
	}

	s.keepsRenewing(t, 0)
	run, err := s.begin(t.Context(), scenario.Scenario{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(run.watcher.Stop)
	g.Expect(s.renewer()).To(BeIdenticalTo(s.replicas[0]))
	for _, request := range s.replicas[0].proxy.Journal().Requests {
		g.Expect(request.Path).To(Equal(leasePath))
	}
	g.Expect(s.replicas[1].proxy.Journal().Requests).To(BeEmpty())
	g.Expect(run.seen).To(HaveExactElements(len(s.replicas[0].proxy.Journal().Requests), 0))
	g.Expect(s.told(time.Time{}).Replicas).To(HaveLen(2))
}

func TestWritesAreThoseAboutTheRun(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.StatusOK)
	s.subject.Promises = invariant.Operator{Lease: lease, AnyReplica: []history.Resource{{Resource: "events"}}}
	s.ask(t, 0, http.MethodPatch, "/things/thing-1", "before")
	run := &trial{prover: s.Prover, seen: []int{1, 0}}
	h := &history.History{Aliases: map[string]string{"thing-1": "{thing}"}}
	for _, r := range []struct {
		id, method, path string
		resource         history.Resource
		name             string
		effect           history.Effect
	}{
		{"read", http.MethodGet, "/things/thing-1", things, "thing-1", history.Read},
		{"first", http.MethodPatch, "/things/thing-1/status", things, "thing-1", history.Stored},
		{"lease", http.MethodPut, "/leases/lease", history.Leases, "lease", history.Stored},
		{"event", http.MethodPost, "/events", history.Resource{Resource: "events"}, "thing-1.x", history.Stored},
		{"same", http.MethodPatch, "/things/thing-1/status", things, "thing-1", history.Unchanged},
		{"other", http.MethodPatch, "/things/another", things, "another", history.Stored},
		{"refused", http.MethodPatch, "/things/thing-1", things, "thing-1", history.Refused},
		{"made", http.MethodPost, "/things", things, "thing-1-part", history.Stored},
		{"gone", http.MethodDelete, "/things/thing-1", things, "thing-1", history.Deleted},
	} {
		s.ask(t, len(h.Requests)%2, r.method, r.path, r.id)
		key := history.Key{Resource: r.resource, Namespace: "ns", Name: r.name}
		h.Requests = append(h.Requests, history.Request{ID: r.id, Key: key, Effect: r.effect})
	}
	s.ask(t, 0, http.MethodPatch, "/things/thing-1", "unknown to the log")
	g.Expect(run.writes(h)).To(Equal([]scenario.Write{
		{Method: http.MethodPatch, Path: "/things/{thing}/status", Effective: true},
		{Method: http.MethodPatch, Path: "/things/{thing}/status"},
		{Method: http.MethodPatch, Path: "/things/{thing}"},
		{Method: http.MethodPost, Path: "/things", Effective: true},
		{Method: http.MethodDelete, Path: "/things/{thing}", Effective: true},
	}))
}

// world is a trial against a store that is in memory.
func world(t *testing.T, funcs interceptor.Funcs) *trial {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(clientgoscheme.Scheme)).WithInterceptorFuncs(funcs).Build()
	p := &Prover{client: c, clock: clock.RealClock{}, auditLog: filepath.Join(t.TempDir(), "audit.log")}
	p.subject.Promises = invariant.Operator{Users: []string{operator}, Lease: lease}
	return &trial{prover: p}
}

func refTo(name string) scenario.Ref {
	return scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: name}
}

func TestDriveDoesWhatTheStepsSay(t *testing.T) {
	g := NewWithT(t)
	failures := 2
	run := world(t, interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
		if failures--; failures >= 0 {
			return errors.New("the webhook does not answer")
		}
		return c.Apply(ctx, o, opts...)
	}})
	ref := refTo("a")
	gone := scenario.Wait{Object: ref, Gone: true}
	apply := scenario.Step{Apply: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "ns", "name": "a"}, "data": map[string]any{"x": "1"}}}
	patch := scenario.Step{Patch: &scenario.Patch{Object: ref, Merge: map[string]any{"data": map[string]any{"y": "2"}}}}
	marks, err := run.drive(t.Context(), scenario.Scenario{Name: "s", Steps: []scenario.Step{apply, patch}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(marks).To(BeEmpty())
	var got corev1.ConfigMap
	g.Expect(run.prover.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "a"}, &got)).To(Succeed())
	g.Expect(got.Data).To(Equal(map[string]string{"x": "1", "y": "2"}))

	t.Log("what does not come about is not the harness's fault")
	there, err := run.reach(t.Context(), 100*time.Millisecond, gone)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(there).To(BeFalse())

	t.Log("deleting twice is deleting, and what was made is cleared up")
	_, err = run.drive(t.Context(), scenario.Scenario{Name: "s", Steps: []scenario.Step{{Delete: &ref}, {Delete: &ref}, {Wait: &gone}}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(run.act(t.Context(), apply)).To(Succeed())
	g.Expect(run.clear(t.Context())).To(Succeed())
	there, err = run.reach(t.Context(), time.Second, gone)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(there).To(BeTrue())
}

func TestDriveSaysWhichStepCannotBeDone(t *testing.T) {
	g := NewWithT(t)
	run := world(t, interceptor.Funcs{})
	nameless := scenario.Step{Name: "wrong", Apply: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := run.drive(ctx, scenario.Scenario{Name: "s", Steps: []scenario.Step{nameless}})
	g.Expect(err).To(MatchError(ContainSubstring("doing step 1 wrong of scenario s")))
}

func TestSettleWaitsForTheOperatorOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		user, resource string
		waits          bool
	}{
		"TheOperator":  {operator, "things", true},
		"ItsLease":     {operator, "leases", false},
		"SomebodyElse": {"alice", "things", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run := world(t, interceptor.Funcs{})
			now := time.Now()
			event := auditv1.Event{
				Stage: auditv1.StageResponseComplete, Verb: "patch", StageTimestamp: metav1.NewMicroTime(now), RequestReceivedTimestamp: metav1.NewMicroTime(now),
				ObjectRef: &auditv1.ObjectReference{Resource: tc.resource, Namespace: "ns", Name: "lease"},
			}
			if tc.resource == "leases" {
				event.ObjectRef.APIGroup = coordinationv1.GroupName
			}
			event.User.Username = tc.user
			line, err := json.Marshal(event)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.WriteFile(run.prover.auditLog, append(line, '\n'), 0o600)).To(Succeed())
			g.Expect(run.settle(t.Context(), now.Add(-pause), now.Add(eventually))).To(Succeed())
			if tc.waits {
				g.Expect(time.Since(now)).To(BeNumerically(">=", pause))
			} else {
				g.Expect(time.Since(now)).To(BeNumerically("<", pause))
			}
		})
	}
}

func TestSettleDoesNotWaitForEver(t *testing.T) {
	g := NewWithT(t)
	run := world(t, interceptor.Funcs{})
	run.prover.auditLog = filepath.Join(t.TempDir(), "none")
	g.Expect(run.settle(t.Context(), time.Now(), time.Now())).To(MatchError(ContainSubstring("waiting for the operator to rest")))
	g.Expect(os.WriteFile(run.prover.auditLog, nil, 0o600)).To(Succeed())
	g.Expect(run.settle(t.Context(), time.Now(), time.Now().Add(-time.Hour))).To(Succeed())
}
