// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
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
	role   = history.Resource{Group: rbacv1.GroupName, Resource: "clusterroles"}
)

const operator = "system:serviceaccount:ns:operator"

// The start of a run drops all records except for the leader.
func TestExecution_StartsWithoutOldRecords(t *testing.T) {
	g := NewWithT(t)
	s := newElection(t)
	s.random = rand.New(rand.NewPCG(1, 2))
	third, err := s.addReplica(t.Context(), replicaOverrides{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.removeReplica(t.Context(), third)).To(Succeed())
	g.Expect(s.historySince(time.Time{}).Replicas).To(HaveLen(3))
	s.patch(0, "/things/old")
	s.lead(1)
	g.Expect(s.lastRenewer()).To(BeIdenticalTo(s.replicas[1]), "it led in the run before")
	for _, r := range s.replicas {
		g.Eventually(func() time.Time { return r.proxy.Journal().Requests[0].Done }, testTimeout).ShouldNot(BeZero())
	}

	s.renewInBackground()
	run, err := s.beginExecution(t.Context(), scenario.Scenario{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(run.watcher.Stop)
	g.Expect(s.lastRenewer()).To(BeIdenticalTo(s.replicas[0]))
	for _, request := range s.replicas[0].proxy.Journal().Requests {
		g.Expect(request.Path).To(Equal(leasePath))
	}
	g.Expect(s.replicas[1].proxy.Journal().Requests).To(BeEmpty())
	g.Expect(s.historySince(time.Time{}).Replicas).To(HaveLen(2))
}

func TestExecution_ObservesItsOwnWritesOnly(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t)
	s.subject.Contract = invariant.Contract{Lease: lease, AnyReplica: []history.Resource{{Resource: "events"}}}
	s.request(0, http.MethodPatch, thingPath, "before")
	run := &execution{prover: s.Prover}
	h := &history.History{Aliases: map[string]string{"thing-1": "{thing}"}}
	for _, r := range []struct {
		id, method, path string
		resource         history.Resource
		name             string
		effect           history.Effect
	}{
		{"read", http.MethodGet, thingPath, things, "thing-1", history.Read},
		{"first", http.MethodPatch, "/things/thing-1/status", things, "thing-1", history.Stored},
		{"lease", http.MethodPut, "/leases/lease", history.Leases, "lease", history.Stored},
		{"event", http.MethodPost, "/events", history.Resource{Resource: "events"}, "thing-1.x", history.Stored},
		{"same", http.MethodPatch, "/things/thing-1/status", things, "thing-1", history.Unchanged},
		{"other", http.MethodPatch, "/things/another", things, "another", history.Stored},
		{"refused", http.MethodPatch, thingPath, things, "thing-1", history.Refused},
		{"made", http.MethodPost, "/things", things, "thing-1-part", history.Stored},
		{"gone", http.MethodDelete, thingPath, things, "thing-1", history.Deleted},
		{"list", http.MethodGet, "/things", things, "", history.Read},
	} {
		s.request(len(h.Requests)%2, r.method, r.path, r.id)
		key := history.Key{Resource: r.resource, Namespace: "ns", Name: r.name}
		verb := map[string]string{"list": "list"}[r.id]
		h.Requests = append(h.Requests, history.Request{ID: r.id, Key: key, Effect: r.effect, Verb: verb,
			Received: time.Unix(int64(len(h.Requests)), 0)})
	}
	s.request(0, http.MethodPatch, thingPath, "unknown to the log")
	g.Expect(run.writes(h)).To(Equal([]call{
		{Method: http.MethodPatch, Path: "/things/{thing}/status", Changed: true},
		{Method: http.MethodPatch, Path: "/things/{thing}/status"},
		{Method: http.MethodPatch, Path: "/things/{thing}"},
		{Method: http.MethodPost, Path: "/things", Changed: true},
		{Method: http.MethodDelete, Path: "/things/{thing}", Changed: true},
	}))
	h.Checkpoints = []history.Checkpoint{{Name: "made", Ended: time.Unix(7, 0)}, {Name: "end", Ended: time.Unix(20, 0)}}
	count := func(step, method, effect, path string) invariant.RequestCount {
		return invariant.RequestCount{Step: step, Method: method, Resource: things.String() + effect, Path: path, Count: 1}
	}
	g.Expect(run.countRequests(h)).To(Equal([]invariant.RequestCount{
		count("made", "GET", "", "/things/{thing}"), count("made", "PATCH", "", "/things/{thing}/status"),
		count("made", "PATCH", " without effect", "/things/{thing}/status"),
		count("made", "PATCH", " without effect", "/things/{thing}"), count("made", "POST", "", "/things"),
		count("end", "DELETE", "", "/things/{thing}"), count("end", "LIST", "", "/things"),
	}))
}

// Objects of fixed names are the run's own, too. A name that is a part of another word is none.
func TestIsOwn(t *testing.T) {
	g := NewWithT(t)
	h := &history.History{Aliases: map[string]string{"thing-1": "{thing}"}}
	ex := &execution{created: []scenario.Ref{{Namespace: "thing-1", Name: "held"}, {Namespace: "shop", Name: "cluster"}, {Name: "shop"}}}
	isOwn := ex.isOwn(h)
	for text, want := range map[string]bool{"things ns/thing-1": true, "jobs shop/other": true, "configmaps ns/shop.cluster": true,
		"jobs ns/cluster-x7k2p": true, "clusterroles.rbac ": false, "pods ns/held": false, "pods ns/workshop": false} {
		g.Expect(isOwn(text)).To(Equal(want), text)
	}
	g.Expect((&execution{}).isOwn(h)("pods ns/a")).To(BeFalse())
}

// newExecution is an execution against a store in memory, with an empty audit log.
func newExecution(t *testing.T, funcs interceptor.Funcs) *execution {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(clientgoscheme.Scheme)).WithInterceptorFuncs(funcs).Build()
	p := &Prover{client: c, dynamic: dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme), clock: clock.RealClock{},
		auditLog: filepath.Join(t.TempDir(), "audit.log")}
	p.subject.Contract = invariant.Contract{Users: []string{operator}, Lease: lease}
	NewWithT(t).Expect(os.WriteFile(p.auditLog, nil, 0o600)).To(Succeed())
	return &execution{prover: p}
}

// configMap reads an object of the store.
func (ex *execution) configMap(t *testing.T, name string) (*corev1.ConfigMap, error) {
	t.Helper()
	o := &corev1.ConfigMap{}
	return o, ex.prover.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, o)
}

func refTo(name string) scenario.Ref {
	return scenario.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: name}
}

// An object of a fixed name that the operator does not delete is no part of the next run.
func TestExecution_RemovesLeftovers(t *testing.T) {
	g := NewWithT(t)
	run := newExecution(t, interceptor.Funcs{})
	roles := run.prover.dynamic.Resource(rbacv1.SchemeGroupVersion.WithResource(role.Resource))
	h := &history.History{}
	for _, r := range []struct {
		name, user string
		made       bool
		effect     history.Effect
		owners     []metav1.OwnerReference
		deleted    *metav1.Time
	}{
		{name: "deleted", user: operator, made: true, effect: history.Stored, deleted: new(metav1.Now())},
		{name: "left", user: operator, made: true, effect: history.Stored},
		{name: "patched", user: operator, effect: history.Stored},
		{name: "refused", user: operator, made: true, effect: history.Refused},
		{name: "of-a-user", user: "alice", made: true, effect: history.Stored},
		{name: "owned", user: operator, made: true, effect: history.Stored, owners: []metav1.OwnerReference{{UID: "a"}}},
	} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
		o.SetName(r.name)
		o.SetOwnerReferences(r.owners)
		o.SetDeletionTimestamp(r.deleted)
		_, err := roles.Create(t.Context(), o, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		h.Requests = append(h.Requests, history.Request{User: r.user, Key: history.Key{Resource: role, Name: r.name},
			Made: r.made, Effect: r.effect, Verb: "create"})
	}
	gone := history.Key{Resource: role, Name: "gone"}
	h.Requests = append(h.Requests, history.Request{User: operator, Key: gone, Made: true, Effect: history.Stored})
	g.Expect(run.removeLeftovers(t.Context(), h)).To(Succeed())
	g.Expect(h.Leftovers).To(Equal([]history.Key{{Resource: role, Name: "left"}}))
	list, err := roles.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Items).To(HaveLen(5))
	g.Expect(list.Items).NotTo(ContainElement(HaveField("GetName()", "left")))
}

// The next run may create the owner again, under the same name.
func TestExecution_WaitsForTheGarbageCollector(t *testing.T) {
	g := NewWithT(t)
	run := newExecution(t, interceptor.Funcs{})
	owned := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{UID: "a"}}}}
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(owned)
	g.Expect(err).NotTo(HaveOccurred())
	reads := 0
	run.prover.dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("get", "clusterroles",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			if reads++; reads > 1 {
				return true, nil, apierrors.NewNotFound(schema.GroupResource{}, "owned")
			}
			return true, &unstructured.Unstructured{Object: o}, nil
		})
	g.Expect(run.removeLeftovers(t.Context(), &history.History{Requests: []history.Request{{User: operator, Made: true,
		Key: history.Key{Resource: role, Name: "owned"}, Effect: history.Stored}}})).To(Succeed())
	g.Expect(reads).To(Equal(2))
}

// Each replica may write a webhook's certificate, before and without leading.
func TestStrays(t *testing.T) {
	g := NewWithT(t)
	p := newExecution(t, interceptor.Funcs{}).prover
	event := func(pod, group, resource, answer string) string {
		return fmt.Sprintf(`{"auditID":%q,"stage":"ResponseComplete","verb":"update","user":{"username":%q,"extra":{`+
			`"authentication.kubernetes.io/pod-name":[%q]}},"objectRef":{"apiGroup":%q,"resource":%q,"namespace":"ns","name":"lease"},`+
			`"responseStatus":{"code":200},"responseObject":{"kind":"X","metadata":{"name":"lease","uid":"u","resourceVersion":%s}`+"\n",
			pod+resource, operator, pod, group, resource, answer)
	}
	lease := event("one", "coordination.k8s.io", "leases", `"10"},"spec":{"holderIdentity":"one_1"}}`)
	webhooks := event("two", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", `"12"}}`)
	unchanged := event("two", "apps", "deployments", `"9"}}`)
	text := lease + event("one", "", "secrets", `"11"}}`) + webhooks + webhooks + unchanged
	g.Expect(os.WriteFile(p.auditLog, []byte(text), 0o600)).To(Succeed())
	g.Expect(p.Strays()).To(Equal([]history.Resource{{Group: "apps", Resource: "deployments"},
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}}))
}
