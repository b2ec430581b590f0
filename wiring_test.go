// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
	"leasehold.dev/runners"
	"leasehold.dev/runners/election"
)

// kinds are the names of the controllers.
var kinds = []string{"tenant", "storagebucket", "markdownview"}

// kubeconfigFor returns the name of a file that leads to this API server.
func kubeconfigFor(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"": {Server: server}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {}},
		CurrentContext: "test",
	}, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// ofManager observes an option of the manager.
func ofManager(value func(ctrl.Options) any) func(*testing.T, *options) string {
	return func(_ *testing.T, o *options) string { return fmt.Sprint(value(optionsOf(o, nil))) }
}

// times observes an option that the manager and the lock share.
func times(ofManager func(ctrl.Options) any, ofLock func(election.Options) any) func(*testing.T, *options) string {
	return func(_ *testing.T, o *options) string {
		return fmt.Sprint(ofManager(optionsOf(o, nil)), ofLock(o.election))
	}
}

// ofWebhooks observes an option of the server of the webhooks.
func ofWebhooks(value func(webhook.Options) any) func(*testing.T, *options) string {
	return func(_ *testing.T, o *options) string { return fmt.Sprint(value(webhooksOf(o, nil))) }
}

// added is a manager that records its runnables and never starts. It knows the kinds of the rotator.
type added struct {
	ctrl.Manager
	runnables []manager.Runnable
	recorders []string
}

func (m *added) GetEventRecorder(name string) recorder.EventRecorder {
	m.recorders = append(m.recorders, name)
	return m.Manager.GetEventRecorder(name)
}

func (m *added) GetRESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), meta.RESTScopeRoot)
	mapper.Add(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"), meta.RESTScopeRoot)
	return mapper
}

func (m *added) Add(r manager.Runnable) error {
	m.runnables = append(m.runnables, r)
	return m.Manager.Add(r)
}

// controller has fields of the library's controller, whose package is internal to it.
type controller struct {
	do      reconcile.Reconciler
	workers int
	limiter workqueue.TypedRateLimiter[reconcile.Request]
}

// controllersOf returns what addControllers adds, by name, on a store of these objects. Applies are recorded.
func controllersOf(t *testing.T, o *options, objects ...client.Object) (map[string]controller, *[]string) {
	t.Helper()
	w, mgr, reader := newWatches(t, objects...)
	var applied []string
	w.stored.WithStatusSubresource(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			body, err := json.Marshal(o)
			applied = append(applied, string(body))
			return errors.Join(err, json.Unmarshal([]byte(`{"metadata":{"uid":"made","resourceVersion":"2"}}`), o))
		},
	})
	m := &added{Manager: offline{mgr, reader, t}}
	if err := addControllers(t.Context(), m, o, nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(m.recorders, " "); got != "leasehold-tenant leasehold-storagebucket leasehold-markdownview" {
		t.Errorf("the controllers record events as %s", got)
	}
	reader.Client = w.stored.Build()
	found := map[string]controller{}
	for _, r := range m.runnables {
		if v := reflect.Indirect(reflect.ValueOf(r)); v.Kind() == reflect.Struct && v.FieldByName("Do").IsValid() {
			found[v.FieldByName("Name").String()] = controller{
				do:      v.FieldByName("Do").Interface().(reconcile.Reconciler),
				workers: v.FieldByName("MaxConcurrentReconciles").Interface().(int),
				limiter: v.FieldByName("RateLimiter").Interface().(workqueue.TypedRateLimiter[reconcile.Request]),
			}
		}
	}
	if got := slices.Sorted(maps.Keys(found)); len(got) != len(kinds) {
		t.Fatalf("the controllers are %q", got)
	}
	return found, &applied
}

func workers(t *testing.T, o *options) string {
	t.Helper()
	found, _ := controllersOf(t, o)
	return perKind(func(kind string) int { return found[kind].workers })
}

// perKind lists a number for each kind.
func perKind(number func(kind string) int) string {
	var texts []string
	for _, kind := range kinds {
		texts = append(texts, fmt.Sprintf("%s %d", kind, number(kind)))
	}
	return strings.Join(texts, ", ")
}

// The pause after an error doubles from the first one of the kind to a minute.
func TestControllersRetry(t *testing.T) {
	o, err := parseOptions(nil, inPod)
	if err != nil {
		t.Fatal(err)
	}
	found, _ := controllersOf(t, o)
	for kind, first := range map[string]time.Duration{"tenant": 5 * time.Millisecond, "storagebucket": time.Second,
		"markdownview": 5 * time.Millisecond} {
		var got []time.Duration
		for range 20 {
			got = append(got, found[kind].limiter.When(reconcile.Request{}))
		}
		if !slices.Equal(got[:3], []time.Duration{first, 2 * first, 4 * first}) || got[19] != time.Minute {
			t.Errorf("%s: pauses of %s, want %s, doubled up to a minute", kind, got, first)
		}
	}
}

// applied returns what a reconcile of an object applies, the value at this path of each child that has one.
func applied(t *testing.T, o *options, kind string, object client.Object, path ...string) string {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: o.tenants.AdminClusterRole}}
	found, bodies := controllersOf(t, o, object, role)
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	if _, err := found[kind].do.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, body := range *bodies {
		var at any
		if err := json.Unmarshal([]byte(body), &at); err != nil {
			t.Fatal(err)
		}
		for _, step := range path {
			if list, ok := at.([]any); ok && len(list) > 0 {
				at = list[0]
			}
			fields, _ := at.(map[string]any)
			at = fields[step]
		}
		if at != nil {
			values = append(values, fmt.Sprint(at))
		}
	}
	return strings.Join(values, " ")
}

func tenantOfOne() client.Object {
	return &v1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Generation: 1},
		Spec: v1beta1.TenantSpec{
			NamespacePrefix: "a-", Namespaces: []v1beta1.NamespaceSuffix{"dev"},
			Admins: []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "ann"}}},
	}
}

func adminRole(t *testing.T, o *options) string {
	t.Helper()
	return applied(t, o, "tenant", tenantOfOne(), "roleRef", "name")
}

func podSecurity(t *testing.T, o *options) string {
	t.Helper()
	return applied(t, o, "tenant", tenantOfOne(), "metadata", "labels", "pod-security.kubernetes.io/enforce")
}

// reserved returns which of two names a Tenant may not have.
func reserved(t *testing.T, o *options) string {
	t.Helper()
	found, _ := controllersOf(t, o)
	names := found["tenant"].do.(*tenant.Reconciler).Options.ReservedNamespaces
	return strings.Join(slices.DeleteFunc([]string{"cert-manager", "ops-*"}, func(name string) bool {
		return !slices.Contains(names, name)
	}), " ")
}

func viewerImage(t *testing.T, o *options) string {
	t.Helper()
	return applied(t, o, "markdownview", &v1beta1.MarkdownView{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "u", Generation: 1},
		Spec: v1beta1.MarkdownViewSpec{Replicas: v1beta1.MinViewerReplicas,
			Markdowns: map[string]v1beta1.MarkdownText{"SUMMARY.md": "# A"}},
	}, "spec", "template", "spec", "containers", "image")
}

// dialled lists the addresses that a probe may dial.
func dialled(t *testing.T, o *options) string {
	t.Helper()
	found, _ := controllersOf(t, o)
	rules := found["storagebucket"].do.(*storagebucket.Reconciler).Rules
	return strings.Join(slices.DeleteFunc([]string{"10.1.2.3", "127.0.0.1", "169.254.169.254"}, func(address string) bool {
		return rules.Forbids(netip.MustParseAddr(address))
	}), " ")
}

// ticks counts how often each kind is listed in a minute.
func ticks(t *testing.T, o *options) string {
	t.Helper()
	got := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		startRunnables(t, o, nil, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				mu.Lock()
				defer mu.Unlock()
				got[strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1beta1."), "List"))]++
				return c.List(ctx, list, opts...)
			},
		})
		<-time.After(59*time.Second + 500*time.Millisecond)
		synctest.Wait()
	})
	return perKind(func(kind string) int { return got[kind] })
}

// server returns the API server that the manager is for.
func server(t *testing.T, _ *options) string {
	t.Helper()
	config, err := ctrl.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	return config.Host
}

// managerOf returns the manager of these options, which has no listeners. Its API server knows the kinds of the cache.
func managerOf(t *testing.T, o options) (ctrl.Manager, *election.Term) {
	t.Helper()
	answers := discoveryOfCachedKinds()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answers[r.URL.Path]); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("KUBECONFIG", kubeconfigFor(t, server.URL))
	o.enableWebhooks, o.metrics.BindAddress, o.probeAddress = false, "0", "0"
	mgr, term, err := newManager(&o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return mgr, term
}

func rates(t *testing.T, o *options) string {
	t.Helper()
	mgr, _ := managerOf(t, *o)
	return fmt.Sprintf("%g a second, %d at once", mgr.GetConfig().QPS, mgr.GetConfig().Burst)
}

// fences returns the checks of the fence that are added.
func fences(t *testing.T, o options) (checks []*runners.FenceCheck) {
	t.Helper()
	_, mgr, _ := newWatches(t)
	m, registry := &added{Manager: mgr}, metrics.Registry
	metrics.Registry = prometheus.NewRegistry() // which accepts the metric once
	defer func() { metrics.Registry = registry }()
	if err := addFenceCheck(m, &o); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.runnables {
		checks = append(checks, r.(*runners.FenceCheck))
	}
	return checks
}

func elects(t *testing.T, o *options) string {
	t.Helper()
	_, term := managerOf(t, *o)
	return fmt.Sprintf("the manager %t, the term %t, the fence %d",
		optionsOf(o, nil).LeaderElection, term != nil, len(fences(t, *o)))
}

func leaseNames(t *testing.T, o *options) string {
	t.Helper()
	electing := *o
	electing.leaderElect = true
	return fmt.Sprint("elects by ", optionsOf(o, nil).LeaderElectionID, ", locks ", o.election.Lease.Name, ", fenced by ",
		fences(t, electing)[0].Lease)
}

// readiness lists the checks of /readyz.
func readiness(t *testing.T, o *options) string {
	t.Helper()
	_, mgr, _ := newWatches(t)
	m := &checked{Manager: mgr, live: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{}}
	if err := errors.Join(addWebhooks(m, o, nil), addChecks(m, o)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(m.ready)))
}

// rotated lists the Secret, the host and the configurations of the certificate that the operator manages.
func rotated(t *testing.T, o *options) string {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	certificate, err := o.certificate()
	if err != nil {
		t.Fatal(err)
	}
	_, mgr, _ := newWatches(t)
	m := &added{Manager: mgr}
	err = addWebhooks(m, o, certificate) // a second rotator of a process gets no controller
	for _, r := range m.runnables {
		v := reflect.ValueOf(r)
		if v.Kind() != reflect.Struct || !v.FieldByName("Runnable").IsValid() {
			continue
		}
		if r, ok := reflect.TypeAssert[*rotator.CertRotator](v.FieldByName("Runnable")); ok {
			names := []string{r.SecretKey.String(), r.DNSName}
			for _, hook := range r.Webhooks {
				names = append(names, hook.Name)
			}
			return strings.Join(names, " ")
		}
	}
	t.Fatalf("no rotator is added: %v", err)
	return ""
}
