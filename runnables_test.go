// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/runners/election"
)

// offline is a manager whose API reader fails the test when our kinds are listed.
type offline struct {
	ctrl.Manager
	reader *lateClient
	t      *testing.T
}

func (m offline) GetAPIReader() client.Reader { return live{m.reader, m.t} }

// live stands for the API server. Our kinds must not be listed there: the cache has them.
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

// startRunnables runs all that addControllers adds, on a cache over these objects, and returns that cache.
func startRunnables(t *testing.T, o *options, term *election.Term, funcs interceptor.Funcs,
	objects ...client.Object) *watches {
	t.Helper()
	w, mgr, reader := newWatches(t, objects...)
	w.stored.WithInterceptorFuncs(funcs).WithReturnManagedFields().
		WithStatusSubresource(&v1beta1.StorageBucket{}, &v1beta1.Tenant{}, &v1beta1.MarkdownView{})
	for _, object := range objects {
		i := w.informerOf(object)
		i.first = append(i.first, object)
	}
	if err := addControllers(t.Context(), offline{mgr, reader, t}, o, term); err != nil {
		t.Fatal(err)
	}
	w.start(t, mgr, reader)
	return w
}

func shippedRunnables(t *testing.T) *options {
	t.Helper()
	o, err := parseOptions(shippedArguments(t, "default"), inPod)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Each controller lists its kind in the cache when its ticker ticks, and reconciles what the tick names. The flags
// of the intervals are in TestFlagsSetTheirOptions.
func TestTicks(t *testing.T) {
	if got, want := ticks(t, shippedRunnables(t)), "tenant 0, storagebucket 59, markdownview 0"; got != want {
		t.Errorf("lists in a minute: %s, want %s", got, want)
	}
}

// A change waits for the object that the worker is at, and not for all objects that a tick of --sync-period has
// queued before it. Of those, one that changes is moved forward.
func TestChangesOvertakeTicks(t *testing.T) {
	const many, each = 100, time.Second
	ready := []metav1.Condition{{Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue}}
	for name, object := range map[string]func(name string) client.Object{
		"Tenant": func(name string) client.Object {
			return &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1beta1.TenantStatus{Conditions: ready}}
		},
		"MarkdownView": func(name string) client.Object {
			return &v1beta1.MarkdownView{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := shippedRunnables(t)
				o.tenants.MaxConcurrentReconciles, o.views.MaxConcurrentReconciles, o.syncPeriod = 1, 1, 2*many*each
				var mu sync.Mutex
				var reconciled []string
				var objects []client.Object
				for i := range many {
					objects = append(objects, object(fmt.Sprint("unchanged-", i)))
				}
				w := startRunnables(t, o, nil, interceptor.Funcs{
					// Each reconcile begins with a Get, takes a second here, and ends because its object is gone.
					Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object,
						_ ...client.GetOption) error {
						<-time.After(each)
						mu.Lock()
						defer mu.Unlock()
						reconciled = append(reconciled, key.Name)
						return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
					},
				}, objects...)
				since := func(wait time.Duration) []string {
					<-time.After(wait)
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					names := reconciled
					reconciled = nil
					return names
				}
				if first := since(o.syncPeriod - each/2); len(first) != many {
					t.Fatalf("%d reconciles at the start, want %d", len(first), many)
				}
				if ticked := since(10 * each); len(ticked) == 0 || slices.Contains(ticked, "unchanged-99") {
					t.Fatalf("10 s after a tick, %q are reconciled; want some, and not the last one", ticked)
				}
				w.informerOf(object("")).Add(object("changed"))
				w.informerOf(object("")).Add(object("unchanged-99"))
				next, want := since(3*each), []string{"changed", "unchanged-99"}
				if len(next) != 3 || !slices.Equal(next[1:], want) {
					t.Errorf("after changes during a tick, %q are reconciled; want the one that has begun, and then %q", next, want)
				}
				if rest := len(since(2 * many * each)); rest < many/2 {
					t.Errorf("then %d of the tick's objects are reconciled, want the rest", rest)
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
			o.buckets.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
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
