// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/runners/election"
	"leasehold.dev/runners/servingcert"
)

// namedLock is a lock that has an identity and cannot be acquired.
type namedLock struct{ resourcelock.Interface }

func (namedLock) Identity() string { return "manager-0_uuid" }

func shippedOptions(t *testing.T) ctrl.Options {
	t.Helper()
	o, err := parseOptions(shippedArguments(t, "default"), inPod)
	if err != nil {
		t.Fatal(err)
	}
	return optionsOf(o, nil)
}

func optionsOf(o *options, certificate *servingcert.Source) ctrl.Options {
	return managerOptions(o, namedLock{}, certificate)
}

// webhooksOf returns the options of the server of the webhooks, which another one wraps.
func webhooksOf(o *options, certificate *servingcert.Source) webhook.Options {
	wrapped := reflect.ValueOf(optionsOf(o, certificate).WebhookServer).Elem().FieldByName("Server").Interface()
	return wrapped.(*webhook.DefaultServer).Options
}

// TestManagerAsItShips tests the values as shipped. Suites set times of their own.
func TestManagerAsItShips(t *testing.T) {
	m := shippedOptions(t)
	type shipped struct {
		Elects, ReleasesLease, WarmsUp, RecoversPanics bool
		LeaseName                                      string
		Lease, Renew, Retry, Shutdown, Reconciliation  time.Duration
		Metrics, Probes                                string
		AuthorizesMetrics                              bool
	}
	want := shipped{
		Elects: true, ReleasesLease: true, WarmsUp: true, RecoversPanics: true,
		LeaseName: "manager.leasehold.dev",
		Lease:     15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second,
		Shutdown: 30 * time.Second, Reconciliation: 150 * time.Second,
		Metrics: ":8443", Probes: ":8081", AuthorizesMetrics: true,
	}
	got := shipped{
		Elects: m.LeaderElection, ReleasesLease: m.LeaderElectionReleaseOnCancel,
		WarmsUp: ptr.Deref(m.Controller.EnableWarmup, false), RecoversPanics: ptr.Deref(m.Controller.RecoverPanic, false),
		LeaseName: m.LeaderElectionID,
		Lease:     *m.LeaseDuration, Renew: *m.RenewDeadline, Retry: *m.RetryPeriod,
		Shutdown: *m.GracefulShutdownTimeout, Reconciliation: m.Controller.ReconciliationTimeout,
		Metrics: m.Metrics.BindAddress, Probes: m.HealthProbeBindAddress,
		AuthorizesMetrics: m.Metrics.SecureServing && m.Metrics.FilterProvider != nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the manager (-want +got):\n%s", diff)
	}
	if m.Client.Cache == nil || !ptr.Deref(m.Client.Cache.EnableReadYourWritesConsistency, false) {
		t.Error("a read does not wait for the writes before it")
	}
	if m.LeaderElectionResourceLockInterface != (namedLock{}) {
		t.Error("the election does not use the lock with a client of its own")
	}
	if m.Controller.NeedLeaderElection != nil || m.NewClient != nil {
		t.Error("an option is set that lets a standby write")
	}
	if m.Cache.DefaultTransform == nil {
		t.Error("the cache keeps managed fields")
	}
	declared := map[string]int{}
	for o := range m.Cache.ByObject {
		declared[fmt.Sprintf("%T", o)]++
	}
	if diff := cmp.Diff(map[string]int{"*v1.ConfigMap": 1, "*v1.Deployment": 1, "*v1.RoleBinding": 1, "*v1.Service": 1,
		"*v1beta1.MarkdownView": 1, "*v1beta1.StorageBucket": 1}, declared); diff != "" {
		t.Errorf("kinds of which the cache keeps a part, each declared once (-want +got):\n%s", diff)
	}
}

// The lock competes for the Lease with the times of the elector.
func TestLockAsItShips(t *testing.T) {
	got := shippedRunnables(t).election
	want := election.Options{
		Lease:   types.NamespacedName{Namespace: "system", Name: "manager.leasehold.dev"},
		PodName: "manager-0", PodUID: "uid", Container: "manager",
		RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Clock: clock.RealClock{}, Evidence: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the lock (-want +got):\n%s", diff)
	}
}

// TestElectionAsItShips reads the first Lease that a manager creates. client-go puts the timeout of
// a request into its URL.
func TestElectionAsItShips(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
	type claim struct{ Path, Timeout, Holder, Pod string }
	created, answers := make(chan claim, 1), discoveryOfCachedKinds()
	answers[leases] = &coordinationv1.LeaseList{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
	}
	decoder := serializer.NewCodecFactory(newScheme()).UniversalDeserializer()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var lease coordinationv1.Lease
		body, err := io.ReadAll(r.Body)
		if _, _, decodeErr := decoder.Decode(body, nil, &lease); err == nil && decodeErr == nil &&
			lease.Spec.HolderIdentity != nil {
			holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
			_, pod, _ := strings.Cut(lease.Annotations[election.HolderPodAnnotation], "/")
			select {
			case created <- claim{r.URL.Path + "/" + lease.Name, r.URL.Query().Get("timeout"), holder, pod}:
			default: // a later attempt
			}
		}
		answer, found := answers[r.URL.Path]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	mgr := shippedManager(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	want := claim{leases + "/manager.leasehold.dev", "5s", "manager-0", "uid"}
	select {
	case got := <-created:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the first claim (-want +got):\n%s", diff)
		}
	case err := <-ended:
		t.Fatalf("Start() = %v before any claim", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Start() = %v after the stop, want none", err)
	}
}

// shippedManager returns the manager as it ships, for this API server and without listeners.
func shippedManager(t *testing.T, server *httptest.Server, args ...string) ctrl.Manager {
	t.Helper()
	t.Setenv("KUBECONFIG", kubeconfigFor(t, server.URL))
	args = slices.Concat(shippedArguments(t, "default"),
		[]string{"--enable-webhooks=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"}, args)
	o, err := parseOptions(args, inPod)
	if err != nil {
		t.Fatal(err)
	}
	mgr, _, err := newManager(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// With leader election the manager's client rejects writes outside the term. The Lease has its own client; see
// TestElectionAsItShips.
func TestClientAsItShips(t *testing.T) {
	for elects, want := range map[string]error{"--leader-elect": election.ErrNotLeading, "--leader-elect=false": nil} {
		t.Run(elects, func(t *testing.T) {
			answers, written := discoveryOfCachedKinds(), 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := answers[r.URL.Path]
				if r.Method == http.MethodPost {
					written++
					answer = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(answer); err != nil {
					t.Error(err)
				}
			}))
			t.Cleanup(server.Close)
			mgr := shippedManager(t, server, elects)
			err := mgr.GetClient().Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"}},
				client.DisableReadYourWritesConsistency) // the cache has not started
			if !errors.Is(err, want) || (written > 0) != (want == nil) {
				t.Errorf("Create() = %v, and %d requests were sent, want %v", err, written, want)
			}
		})
	}
}

// discoveryOfCachedKinds returns the discovery responses, by path, that a cache with options by
// object requires.
func discoveryOfCachedKinds() map[string]any {
	groups, answers := &metav1.APIGroupList{}, map[string]any{"/api": &metav1.APIVersions{Versions: []string{"v1"}}}
	for version, resources := range map[string][]metav1.APIResource{
		"v1": {{Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
			{Name: "namespaces", Kind: "Namespace"}, {Name: "services", Kind: "Service", Namespaced: true}},
		"apps/v1": {{Name: "deployments", Kind: "Deployment", Namespaced: true}},
		"rbac.authorization.k8s.io/v1": {
			{Name: "rolebindings", Kind: "RoleBinding", Namespaced: true},
			{Name: "clusterroles", Kind: "ClusterRole"}, {Name: "clusterrolebindings", Kind: "ClusterRoleBinding"},
		},
		"leasehold.dev/v1beta1": {{Name: "markdownviews", Kind: "MarkdownView", Namespaced: true},
			{Name: "storagebuckets", Kind: "StorageBucket", Namespaced: true}},
	} {
		list := &metav1.APIResourceList{GroupVersion: version, APIResources: resources}
		group, _, named := strings.Cut(version, "/")
		if !named {
			answers["/api/"+version] = list
			continue
		}
		answers["/apis/"+version] = list
		served := metav1.GroupVersionForDiscovery{GroupVersion: version, Version: path.Base(version)}
		groups.Groups = append(groups.Groups, metav1.APIGroup{
			Name: group, Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served,
		})
	}
	answers["/apis"] = groups
	return answers
}

// Each line that a runnable or a controller logs names the replica as the Lease does.
func TestLogsNameTheReplica(t *testing.T) {
	before := ctrl.Log
	t.Cleanup(func() { ctrl.Log = before })
	var written bytes.Buffer
	ctrl.Log = funcr.New(func(_, args string) { written.WriteString(args + "\n") }, funcr.Options{})
	m := shippedOptions(t)
	ctx := m.BaseContext()
	log.FromContext(ctx).Info("of a runnable")
	m.Logger.Info("of a controller")
	for line := range strings.Lines(written.String()) {
		if !strings.Contains(line, `"replica"="manager-0_uuid"`) {
			t.Errorf("the line does not name the replica: %s", line)
		}
	}
	if strings.Count(written.String(), "\n") != 2 {
		t.Errorf("logged %q, want two lines", written.String())
	}
	if ctx.Done() != nil || context.Cause(ctx) != nil {
		t.Error("the base context ends, and would end runnables before the manager stops them")
	}
}
