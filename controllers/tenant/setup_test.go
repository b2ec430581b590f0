// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

func mapping(t *testing.T, tenants ...client.Object) *Reconciler {
	t.Helper()
	c := interceptor.NewClient(store(t, tenants...), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch,
		list client.ObjectList, opts ...client.ListOption) error {
		if !(&client.ListOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency {
			t.Error("a map function waits for writes, and blocks the informer that would show them")
		}
		return c.List(ctx, list, opts...)
	}})
	return &Reconciler{Base: reconciler.Base{Client: c}, Options: Options{AdminClusterRole: "admin"}}
}

func requested(requests []reconcile.Request) string {
	names := []string{}
	for _, r := range requests {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return fmt.Sprint(slices.Compact(names))
}

// A tick reconciles the Ready Tenants, and no others.
func TestTenantsReady(t *testing.T) {
	ready := func(status metav1.ConditionStatus) func(*v1beta1.Tenant) {
		return having(v1beta1.ConditionReady, status, "", "")
	}
	r := mapping(t, tenant("ready", ready(metav1.ConditionTrue)), tenant("failing", ready(metav1.ConditionFalse)),
		tenant("fresh"))
	if got := requested(r.tenantsReady(t.Context(), nil)); got != "[ready]" {
		t.Errorf("a tick queues %s, want [ready]", got)
	}
}

func TestMapFuncs(t *testing.T) {
	a := tenant("a", owning("a-old"))
	r := mapping(t, a, tenant("b"))
	role := func(name string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	type enqueue = func(context.Context, client.Object) []reconcile.Request
	for name, tc := range map[string]struct {
		enqueue enqueue
		object  client.Object
		want    string
	}{
		"a namespace that is listed":                       {r.tenantsNaming, namespace("a-dev"), "[a]"},
		"one that is still held":                           {r.tenantsNaming, namespace("a-old"), "[a]"},
		"one that claims to be a Tenant's":                 {r.tenantsNaming, namespace("x", ownedBy(a)), "[]"},
		"our binding":                                      {r.tenantsNaming, binding("a-dev", a), "[a]"},
		"a binding elsewhere that claims to be a Tenant's": {r.tenantsNaming, binding("x", a), "[]"},
		"the role of all admins":                           {r.tenantsOfRole, role("admin"), "[a b]"},
		"a binding that is only called like the role": {r.tenantsOfRole,
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}, "[]"},
		"a role under the name we would use": {r.tenantsOfRole, role(readerNamePrefix + "b"), "[b]"},
		"another role that claims to be a Tenant's": {r.tenantsOfRole,
			&rbacv1.ClusterRole{ObjectMeta: childMeta(a, "", "x")}, "[]"},
	} {
		if got := requested(tc.enqueue(t.Context(), tc.object)); got != tc.want {
			t.Errorf("%s: requests %s, want %s", name, got, tc.want)
		}
	}
}

// managed is a manager with the methods that New calls.
type managed struct {
	ctrl.Manager
	client, live client.Client
}

func (m managed) GetClient() client.Client    { return m.client }
func (m managed) GetAPIReader() client.Reader { return m.live }
func (m managed) GetEventRecorder(name string) recorder.EventRecorder {
	return &events.FakeRecorder{Events: make(chan string, len(name))}
}

// Decisions that cannot be undone are not made by the cache.
func TestNewReadsTheAPIServer(t *testing.T) {
	m := managed{client: store(t), live: store(t)}
	if r := New(m, Options{}); r.Client != m.client || r.Live != client.Reader(m.live) {
		t.Errorf("New() = %+v, does not use the manager's client and reader", r)
	}
}

// The cache has the bindings of the reserved name, without what no reconcile reads. A reflector may apply
// the transform twice.
func TestCacheKeepsWhatIsCompared(t *testing.T) {
	for kind, by := range CacheByObject() {
		if _, ok := kind.(*rbacv1.RoleBinding); !ok || !by.Field.Matches(fields.Set{"metadata.name": adminBindingName}) ||
			by.Field.Matches(fields.Set{"metadata.name": "other"}) {
			t.Errorf("%T with the selector %s", kind, by.Field)
		}
		full, want := binding("a-dev", tenant("a"), "ann", "mallory"), binding("a-dev", tenant("a"), "ann", "mallory")
		heldBack(full)
		heldBack(want)
		full.Labels["example.com/large"], full.Annotations["example.com/large"] = "x", "y"
		full.ManagedFields = []metav1.ManagedFieldsEntry{{}}
		for range 2 {
			if got, err := by.Transform(full); err != nil || cmp.Diff(want, got) != "" {
				t.Errorf("%v, the cache has (-want +got):\n%s", err, cmp.Diff(want, got))
			}
		}
	}
}
