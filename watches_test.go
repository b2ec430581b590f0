package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/storagebucket"
	"leasehold.dev/controllers/tenant"
)

// watchEvents are the events that a controller has to handle differently. The object has the given
// generation after the event.
var watchEvents = map[string]func(*informer, client.Object){
	"created": func(i *informer, o client.Object) { i.Add(o) },
	"deleted": func(i *informer, o client.Object) { i.Delete(o) },
	"with another spec": func(i *informer, o client.Object) {
		before := o.DeepCopyObject().(client.Object)
		o.SetGeneration(before.GetGeneration() + 1)
		i.Update(before, o)
	},
	"with another annotation": func(i *informer, o client.Object) {
		before := o.DeepCopyObject().(client.Object)
		o.SetAnnotations(map[string]string{"other": "value"})
		i.Update(before, o)
	},
	"without its finalizers": func(i *informer, o client.Object) {
		before := o.DeepCopyObject().(client.Object)
		o.SetFinalizers(nil)
		i.Update(before, o)
	},
}

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
		"with another annotation": "[]", "without its finalizers": "[]"}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "x-dev", Name: name, Generation: 1, Finalizers: []string{v1beta1.TenantFinalizer}}
	}
	for name, tc := range map[string]struct {
		setup  func(context.Context, ctrl.Manager, newQueue) error
		object client.Object
		want   map[string]string // by event
	}{
		// The end of a Tenant ends its claims to namespaces of other Tenants too.
		"a Tenant": {tenants, sharing[0], map[string]string{
			"created": "[a]", "deleted": "[a b]", "with another spec": "[a]", "with another annotation": "[]",
			"without its finalizers": "[a]"}},
		"a namespace":        {tenants, &corev1.Namespace{ObjectMeta: named("x-dev")}, all("[a b]")},
		"a namespace of one": {tenants, &corev1.Namespace{ObjectMeta: named("x-b")}, all("[b]")},
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
			for event, send := range watchEvents {
				o := tc.object.DeepCopyObject().(client.Object)
				o.SetGeneration(1)
				o.SetFinalizers([]string{v1beta1.TenantFinalizer})
				send(w.informerOf(o), o)
				if got := w.queue.taken(); got != tc.want[event] {
					t.Errorf("%s: it queues %s, want %s", event, got, tc.want[event])
				}
			}
		})
	}
}

// TestReadinessWaitsForWatches tests that the readiness check waits for all kinds that a controller watches.
func TestReadinessWaitsForWatches(t *testing.T) {
	for name, tc := range map[string]struct {
		setup func(context.Context, ctrl.Manager, newQueue) error
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

// workers is the number of workers in each controller's options.
const workers = 3

type newQueue = func(
	string, workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request]

func tenants(ctx context.Context, mgr ctrl.Manager, q newQueue) error {
	return tenant.SetupWithManager(ctx, mgr,
		tenant.Options{AdminClusterRole: "admin", MaxConcurrentReconciles: workers, NewQueue: q})
}

func views(_ context.Context, mgr ctrl.Manager, q newQueue) error {
	return markdownview.SetupWithManager(mgr, markdownview.Options{MaxConcurrentReconciles: workers, NewQueue: q})
}

func buckets(_ context.Context, mgr ctrl.Manager, q newQueue) error {
	return storagebucket.SetupWithManager(mgr, storagebucket.Options{MaxConcurrentReconciles: workers, NewQueue: q})
}

// watches is a cache whose informers deliver only the events that the test sends.
type watches struct {
	informertest.FakeInformers

	queue *recordingQueue
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

// lateClient is the manager's client, set when all indexes have been added.
type lateClient struct{ client.Client }

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

// startWatches runs a controller that reads these objects and never reconciles one.
func startWatches(t *testing.T, setup func(context.Context, ctrl.Manager, newQueue) error,
	objects ...client.Object) *watches {
	t.Helper()
	w, mgr, reader := newWatches(t, objects...)
	w.queue = newRecordingQueue()
	if err := setup(t.Context(), mgr,
		func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return w.queue
		}); err != nil {
		t.Fatal(err)
	}
	w.start(t, mgr, reader)
	for i := range workers { // they start when all handlers have been added
		select {
		case <-w.queue.waiting:
		case <-time.After(30 * time.Second):
			t.Fatalf("%d workers, want %d", i, workers)
		}
	}
	return w
}

// recordingQueue records what is added and gives no worker anything.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	waiting chan struct{} // receives one value for each worker that waits
	down    chan struct{} // closed at the end
	ended   sync.Once

	mu    sync.Mutex
	names []string
}

func newRecordingQueue() *recordingQueue {
	return &recordingQueue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
		waiting: make(chan struct{}, 2*workers), down: make(chan struct{}),
	}
}

func (q *recordingQueue) Add(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.names = append(q.names, request.Name)
}

func (q *recordingQueue) Get() (reconcile.Request, bool) {
	q.waiting <- struct{}{}
	<-q.down
	return reconcile.Request{}, true
}

func (q *recordingQueue) ShutDown() {
	q.ended.Do(func() { close(q.down) })
	q.TypedRateLimitingInterface.ShutDown()
}

// taken returns the names added since the last call, each once.
func (q *recordingQueue) taken() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	names := q.names
	q.names = nil
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
		!strings.Contains(got.Result.Message, "the operator's own") {
		t.Errorf("the operator's own namespace: allowed %t, %v", got.Allowed, got.Result)
	}
}
