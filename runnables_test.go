package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/runners"
	"leasehold.dev/runners/election"
	"leasehold.dev/runners/health"
)

// offline is a manager whose API reader fails the test when our kinds are listed.
type offline struct {
	ctrl.Manager
	reader *lateClient
	t      *testing.T
}

func (m offline) GetAPIReader() client.Reader { return live{m.reader, m.t} }

func (m offline) Add(r manager.Runnable) error {
	if inventory, ok := r.(*runners.Inventory); ok {
		m.t.Cleanup(func() { metrics.Registry.Unregister(inventory) })
	}
	return m.Manager.Add(r)
}

// live stands for the API server. Our kinds must not be listed there: each replica counts them, and finds those that
// are due, in its cache.
type live struct {
	client.Reader
	t *testing.T
}

func (r live) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if kind := fmt.Sprintf("%T", list); strings.HasPrefix(kind, "*v1beta1.") {
		r.t.Errorf("%s is listed by the API server", kind)
	}
	return r.Reader.List(ctx, list, opts...)
}

// startRunnables runs all that addRunnables adds, on a cache over these objects.
func startRunnables(t *testing.T, o *options, term *election.Term, funcs interceptor.Funcs,
	objects ...client.Object) *health.Progress {
	t.Helper()
	w, mgr, reader := newWatches(t, objects...)
	w.stored.WithInterceptorFuncs(funcs).WithReturnManagedFields().
		WithStatusSubresource(&v1beta1.StorageBucket{}, &v1beta1.Tenant{}, &v1beta1.MarkdownView{})
	for _, object := range objects {
		i := w.informerOf(object)
		i.first = append(i.first, object)
	}
	progress := health.NewProgress(time.Minute, clock.RealClock{})
	if err := addRunnables(t.Context(), offline{mgr, reader, t}, o, term, progress); err != nil {
		t.Fatal(err)
	}
	w.start(t, mgr, reader)
	return progress
}

func shippedRunnables(t *testing.T) *options {
	t.Helper()
	o, err := parseOptions(shippedArguments(t, "default"), inPod)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Tenants are reconciled once in each period. The other controllers look for due objects at an interval of
// their own: a tenth of the period, at most ten seconds. The inventory lists all kinds twice a minute. All of these lists read the cache.
func TestTicks(t *testing.T) {
	const inventory, most = 2, 5
	for name, tc := range map[string]struct {
		set  func(*options)
		want map[string]int // lists within a minute
	}{
		"as it ships": {func(*options) {},
			map[string]int{"Tenant": 0, "MarkdownView": most, "StorageBucket": 59}},
		"Tenants more often": {func(o *options) { o.syncPeriod = 2 * time.Second },
			map[string]int{"Tenant": 29, "MarkdownView": most, "StorageBucket": 59}},
		"Tenants at the bound": {func(o *options) { o.syncPeriod = 10 * tickInterval },
			map[string]int{"Tenant": 0, "MarkdownView": most, "StorageBucket": 59}},
		"views more often": {func(o *options) { o.viewSyncPeriod = 3 * time.Second },
			map[string]int{"Tenant": 0, "MarkdownView": 198, "StorageBucket": 59}},
		"buckets less often": {func(o *options) { o.probeTick = 20 * time.Second },
			map[string]int{"Tenant": 0, "MarkdownView": most, "StorageBucket": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := shippedRunnables(t)
				tc.set(o)
				var mu sync.Mutex
				got := map[string]int{"Tenant": -inventory, "MarkdownView": -inventory, "StorageBucket": -inventory}
				progress := startRunnables(t, o, nil, interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						mu.Lock()
						defer mu.Unlock()
						for kind := range got {
							if fmt.Sprintf("%T", list) == "*v1beta1."+kind+"List" {
								got[kind]++
							}
						}
						return c.List(ctx, list, opts...)
					},
				})
				<-time.After(59*time.Second + 500*time.Millisecond)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("lists in a minute (-want +got):\n%s", diff)
				}
				idle := []health.Controller{{Name: "markdownview", Working: true}, {Name: "storagebucket", Working: true}}
				if diff := cmp.Diff(idle, progress.Controllers()); diff != "" {
					t.Errorf("observed queues (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A sync period is the time between two reconciles. Due times of views are spread over a tenth of it.
func TestSyncPeriods(t *testing.T) {
	for _, period := range []time.Duration{time.Second, tickInterval, time.Minute, 10 * time.Minute} {
		t.Run(period.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := shippedRunnables(t)
				o.syncPeriod, o.viewSyncPeriod = period, period
				var mu sync.Mutex
				reconciled := map[string][]time.Time{}
				startRunnables(t, o, nil, interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
						opts ...client.GetOption) error {
						mu.Lock()
						defer mu.Unlock()
						kind, now := fmt.Sprintf("%T", into), time.Now()
						if at := reconciled[kind]; len(at) == 0 || now.After(at[len(at)-1].Add(period/2)) {
							reconciled[kind] = append(at, now)
						}
						return c.Get(ctx, key, into, opts...)
					},
					// The Tenant stays Ready although its children have no UIDs here.
					SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
						opts ...client.SubResourcePatchOption) error {
						if _, ok := o.(*v1beta1.Tenant); ok {
							return nil
						}
						return c.SubResource(sub).Patch(ctx, o, patch, opts...)
					},
				}, &v1beta1.Tenant{
					ObjectMeta: metav1.ObjectMeta{Name: "t", UID: "uid-t", Generation: 1,
						Finalizers: []string{v1beta1.TenantFinalizer}},
					Status: v1beta1.TenantStatus{Conditions: []metav1.Condition{{Type: v1beta1.ConditionReady,
						Status: metav1.ConditionTrue}}},
				}, &v1beta1.MarkdownView{
					ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "v", UID: "uid-v", Generation: 1},
					Spec:       v1beta1.MarkdownViewSpec{Markdowns: map[string]v1beta1.MarkdownText{"SUMMARY.md": "x"}},
				}, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: o.adminClusterRole}})
				<-time.After(12*period + period/2)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				for _, kind := range []string{"*v1beta1.Tenant", "*v1beta1.MarkdownView"} {
					at := reconciled[kind]
					if len(at) < 10 {
						t.Errorf("%s: %d reconciles in 12 periods, want at least 10", kind, len(at))
					}
					for i := 1; i < len(at); i++ {
						if passed := at[i].Sub(at[i-1]); passed < period || passed > period+period/5 {
							t.Errorf("%s: %s between two reconciles, want %s and at most a fifth more", kind, passed, period)
						}
					}
				}
			})
		})
	}
}

// A replica sends requests to endpoints only during its term. Without leader election there is no
// term.
func TestOnlyTheLeaderProbes(t *testing.T) {
	lock, err := election.NewLock(&rest.Config{Host: "http://127.0.0.1"}, election.Options{
		Lease: types.NamespacedName{Namespace: "system", Name: "lease"}, PodName: "manager-0",
		RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		term *election.Term
		sent bool
	}{
		"without leader election": {nil, true},
		"outside the term":        {lock.Term(), false},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
			t.Cleanup(server.Close)
			o := shippedRunnables(t)
			o.allowCIDRs = prefixes{netip.MustParsePrefix("127.0.0.0/8")}
			reported := make(chan struct{}, 1)
			startRunnables(t, o, tc.term, interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
					opts ...client.SubResourcePatchOption) error {
					select {
					case reported <- struct{}{}:
					default:
					}
					return c.SubResource(sub).Patch(ctx, o, patch, opts...)
				},
			}, &v1beta1.StorageBucket{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "b", UID: "uid-b", Generation: 1},
				Spec: v1beta1.StorageBucketSpec{
					Endpoint: server.URL, Region: "us-east-1", BucketName: "data", ManagementPolicy: v1beta1.BucketObserve,
					CredentialsSecretRef: v1beta1.SecretReference{Name: "creds"},
					Probe:                v1beta1.ProbeSpec{PeriodSeconds: 60, TimeoutSeconds: 10, FailureThreshold: 3},
				},
			}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "creds"}, Data: map[string][]byte{
				v1beta1.SecretKeyAccessKeyID: []byte("key"), v1beta1.SecretKeySecretAccessKey: []byte("secret"),
			}})
			<-reported
			if sent := requests.Load() > 0; sent != tc.sent {
				t.Errorf("%d requests were sent, want some: %t", requests.Load(), tc.sent)
			}
		})
	}
}
