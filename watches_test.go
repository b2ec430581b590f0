// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
)

// TestWatches tests the watches of the controllers: each event of each kind, from the informer to
// the work queue.
func TestWatches(t *testing.T) {
	sharing := []client.Object{
		&v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec: v1beta1.TenantSpec{NamespacePrefix: "x-", Namespaces: []v1beta1.NamespaceSuffix{"dev"}}},
		&v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "b"},
			Spec: v1beta1.TenantSpec{NamespacePrefix: "x-", Namespaces: []v1beta1.NamespaceSuffix{"dev", "b"}}},
		&v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Spec: v1beta1.TenantSpec{NamespacePrefix: "c-", Namespaces: []v1beta1.NamespaceSuffix{"dev"}}},
	}
	all := func(want string) map[string]string {
		return map[string]string{"created": want, "deleted": want, "with another spec": want, "with another annotation": want,
			"without its finalizers": want}
	}
	itself := map[string]string{"created": "[a]", "deleted": "[a]", "with another spec": "[a]",
		"with another annotation": "[]", "without its finalizers": "[]",
		"paused": "[a]", "paused as before": "[]", "resumed": "[a]",
		"with a request": "[a]", "with another request": "[a]", "with a request as before": "[]"}
	ofTenant := maps.Clone(itself)
	ofTenant["without its finalizers"] = "[a]"
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "x-dev", Name: name, Generation: 1, Finalizers: []string{v1beta1.TenantFinalizer}}
	}
	for name, tc := range map[string]struct {
		setup  setup
		object client.Object
		want   map[string]string // by event
	}{
		"a Tenant":           {tenants, sharing[0], ofTenant},
		"a namespace":        {tenants, &corev1.Namespace{ObjectMeta: named("x-dev")}, all("[a b]")},
		"a namespace of one": {tenants, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x-b"}}, all("[b]")},
		"the admins' binding": {tenants, &rbacv1.RoleBinding{ObjectMeta: named("leasehold:tenant-admin")},
			all("[a b]")},
		"the admins' role": {tenants, &rbacv1.ClusterRole{ObjectMeta: named("admin")}, all("[a b c]")},
		"the readers' role": {tenants, &rbacv1.ClusterRole{ObjectMeta: named("leasehold:tenant-reader:c")},
			all("[c]")},
		"the readers' binding": {tenants, &rbacv1.ClusterRoleBinding{ObjectMeta: named("leasehold:tenant-reader:c")},
			all("[c]")},
		"a MarkdownView":            {views, &v1beta1.MarkdownView{ObjectMeta: named("a")}, itself},
		"the ConfigMap of a view":   {views, &corev1.ConfigMap{ObjectMeta: named("markdowns-a")}, all("[a]")},
		"the Deployment of a view":  {views, &appsv1.Deployment{ObjectMeta: named("viewer-a")}, all("[a]")},
		"the Service of a view":     {views, &corev1.Service{ObjectMeta: named("viewer-a")}, all("[a]")},
		"a Service that is no view": {views, &corev1.Service{ObjectMeta: named("markdowns-a")}, all("[]")},
		"a StorageBucket":           {buckets, &v1beta1.StorageBucket{ObjectMeta: named("a")}, itself},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWatches(t, tc.setup, sharing...)
			for event, want := range tc.want {
				o := tc.object.DeepCopyObject().(client.Object)
				o.SetGeneration(1)
				o.SetFinalizers([]string{v1beta1.TenantFinalizer})
				watchEvents[event](w.informerOf(o), o)
				if got := w.reconciled(t); got != want {
					t.Errorf("%s: it causes reconciles of %s, want %s", event, got, want)
				}
			}
		})
	}
}

// TestReadinessWaitsForWatches tests that the readiness check waits for all kinds that a controller watches.
func TestReadinessWaitsForWatches(t *testing.T) {
	for name, tc := range map[string]struct {
		setup setup
		waits []client.Object
	}{
		"tenant":        {tenants, tenant.WatchedObjects()},
		"markdownview":  {views, markdownview.WatchedObjects()},
		"storagebucket": {buckets, storagebucket.WatchedObjects()},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWatches(t, tc.setup)
			w.mu.Lock()
			defer w.mu.Unlock()
			for kind := range w.informers {
				if !slices.ContainsFunc(tc.waits, func(o client.Object) bool { return fmt.Sprintf("%T", o) == kind }) {
					t.Errorf("%s is watched, and the readiness check does not wait for it", kind)
				}
			}
		})
	}
}

// setup adds a controller with one worker, which reconciles in the order of the events.
type setup struct {
	add func(context.Context, ctrl.Manager) error
	// last is an object of the kind that is reconciled.
	last client.Object
}

var (
	end = metav1.ObjectMeta{Namespace: "x-dev"}

	tenants = setup{func(ctx context.Context, mgr ctrl.Manager) error {
		return tenant.SetupWithManager(ctx, mgr, tenant.Options{AdminClusterRole: "admin", MaxConcurrentReconciles: 1,
			Ticks: make(chan event.GenericEvent)})
	}, &v1beta1.Tenant{ObjectMeta: end}}
	views = setup{func(_ context.Context, mgr ctrl.Manager) error {
		return markdownview.SetupWithManager(mgr, markdownview.Options{MaxConcurrentReconciles: 1,
			Ticks: make(chan event.GenericEvent)})
	}, &v1beta1.MarkdownView{ObjectMeta: end}}
	buckets = setup{func(_ context.Context, mgr ctrl.Manager) error {
		return storagebucket.SetupWithManager(mgr, storagebucket.Options{MaxConcurrentReconciles: 1,
			Ticks: make(chan event.GenericEvent)})
	}, &v1beta1.StorageBucket{ObjectMeta: end}}
)

// watches is a cache whose informers deliver only the events that the test sends.
type watches struct {
	informertest.FakeInformers

	setup  setup
	reader *lateClient
	marks  int
	// stored has the indexes that the controller added.
	stored *fake.ClientBuilder

	mu        sync.Mutex
	informers map[string]*informer // by type
}

// informer can get handlers from several goroutines.
type informer struct {
	*controllertest.FakeInformer

	mu sync.Mutex
	// first are the objects that a new handler receives.
	first []client.Object
}

func (i *informer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, object := range i.first {
		h.OnAdd(object, true)
	}
	return i.FakeInformer.AddEventHandlerWithOptions(h, o)
}

// Add locks, since a mark is sent while the controller still adds its handlers.
func (i *informer) Add(o metav1.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.FakeInformer.Add(o)
}

func (w *watches) informerOf(o client.Object) *informer {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := fmt.Sprintf("%T", o)
	if w.informers[kind] == nil {
		w.informers[kind] = &informer{FakeInformer: controllertest.NewFakeInformer(controllertest.Synced)}
	}
	return w.informers[kind]
}

// GetInformer implements cache.Cache.
func (w *watches) GetInformer(_ context.Context, o client.Object,
	_ ...cache.InformerGetOption) (cache.Informer, error) {
	return w.informerOf(o), nil
}

// IndexField implements cache.Cache.
func (w *watches) IndexField(_ context.Context, o client.Object, field string, keys client.IndexerFunc) error {
	w.stored.WithIndex(o, field, keys)
	return nil
}

// lateClient is the manager's client, set when all indexes have been added. If it records, it records
// the objects that are reconciled: each reconcile reads its object first, and ends if it is gone.
type lateClient struct {
	client.Client

	records bool
	mu      sync.Mutex
	names   []string
}

func (c *lateClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if !c.records {
		return c.Client.Get(ctx, key, o, opts...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, key.Name)
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// seen returns the recorded names.
func (c *lateClient) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.names)
}

// newWatches returns a cache over these objects and a manager that reads it. The manager's
// client works once the indexes have been added; see start.
func newWatches(t *testing.T, objects ...client.Object) (*watches, ctrl.Manager, *lateClient) {
	t.Helper()
	scheme, reader := newScheme(), &lateClient{}
	w := &watches{stored: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...),
		informers: map[string]*informer{}}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1"}, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return meta.NewDefaultRESTMapper(nil),
				nil
		},
		NewCache:   func(*rest.Config, cache.Options) (cache.Cache, error) { return w, nil },
		NewClient:  func(*rest.Config, client.Options) (client.Client, error) { return reader, nil },
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, mgr, reader
}

// start starts the manager with a client that reads the objects stored so far.
func (w *watches) start(t *testing.T, mgr ctrl.Manager, reader *lateClient) {
	t.Helper()
	reader.Client = w.stored.Build()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Start() = %v", err)
		}
	})
}

// startWatches runs a controller whose map functions read these objects, and whose reconciles find none.
func startWatches(t *testing.T, with setup, objects ...client.Object) *watches {
	t.Helper()
	w, mgr, reader := newWatches(t, objects...)
	w.setup, w.reader, reader.records = with, reader, true
	if err := with.add(t.Context(), mgr); err != nil {
		t.Fatal(err)
	}
	w.start(t, mgr, reader)
	gomega.NewWithT(t).Eventually(func() []string { // the worker starts when all handlers have been added
		w.mark()
		return reader.seen()
	}).WithTimeout(30 * time.Second).ShouldNot(gomega.BeEmpty())
	return w
}

// mark queues an object with a new name after all others.
func (w *watches) mark() string {
	w.marks++
	o := w.setup.last.DeepCopyObject().(client.Object)
	o.SetName(fmt.Sprint("mark-", w.marks))
	w.informerOf(o).Add(o)
	return o.GetName()
}

// reconciled returns the names reconciled since the last call, each once.
func (w *watches) reconciled(t *testing.T) string {
	t.Helper()
	mark := w.mark()
	gomega.NewWithT(t).Eventually(w.reader.seen).WithTimeout(30 * time.Second).Should(gomega.ContainElement(mark))
	names := slices.DeleteFunc(w.reader.seen(), func(name string) bool { return strings.HasPrefix(name, "mark-") })
	w.reader.mu.Lock()
	defer w.reader.mu.Unlock()
	w.reader.names = nil
	slices.Sort(names)
	return fmt.Sprint(slices.Compact(names))
}

// TestTenantWebhooksAnswer tests that both webhooks of Tenants are served, have the operator's
// namespace and read from the cache.
func TestTenantWebhooksAnswer(t *testing.T) {
	_, mgr, _ := newWatches(t)
	if err := tenant.SetupWebhookWithManager(mgr, tenant.Options{OperatorNamespace: "leasehold-system"}); err != nil {
		t.Fatal(err)
	}
	answer := func(path, prefix string) *admissionv1.AdmissionResponse {
		t.Helper()
		review := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",`+
			`"kind":{"group":"leasehold.dev","version":"v1beta1","kind":"Tenant"},"object":{"apiVersion":"leasehold.dev/v1beta1","kind":"Tenant",`+
			`"metadata":{"name":"a"},"spec":{%s"namespaces":["system"],"admins":[{"kind":"User","name":"ann"}]}}}}`, prefix)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path+"-leasehold-dev-v1beta1-tenant",
			bytes.NewBufferString(review))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		mgr.GetWebhookServer().WebhookMux().ServeHTTP(recorder, request)
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s answers %d %q: %v", path, recorder.Code, recorder.Body, err)
		}
		return got.Response
	}
	if got := answer("/mutate", ""); !strings.Contains(string(got.Patch), `"path":"/spec/namespacePrefix","value":"a-"`) {
		t.Errorf("the defaults are %s (%v)", got.Patch, got.Result)
	}
	if got := answer("/validate", ""); !got.Allowed {
		t.Errorf("refused: %v", got.Result)
	}
	if got := answer("/validate", `"namespacePrefix":"leasehold-",`); got.Allowed ||
		!strings.Contains(got.Result.Message, "the operator runs in") {
		t.Errorf("the operator's own namespace: allowed %t, %v", got.Allowed, got.Result)
	}
}

// Any client can send the webhooks a request that is no review. Lines about such requests would displace all others.
func TestWebhooksLogReviewsOnly(t *testing.T) {
	_, mgr, _ := newWatches(t)
	if err := errors.Join(tenant.SetupWebhookWithManager(mgr, tenant.Options{}),
		markdownview.SetupWebhookWithManager(mgr)); err != nil {
		t.Fatal(err)
	}
	before := log.Log
	t.Cleanup(func() { log.Log = before })
	var written bytes.Buffer
	log.Log = funcr.New(func(_, args string) { written.WriteString(args + "\n") }, funcr.Options{})
	for _, path := range []string{tenantPath, "/mutate-leasehold-dev-v1beta1-tenant", viewPath} {
		post(t, mgr.GetWebhookServer().WebhookMux(), path, "no review")
		if written.Len() > 0 {
			t.Errorf("%s logs %s", path, written.String())
			written.Reset()
		}
	}
}
