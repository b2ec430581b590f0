package tenant

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

func ready(status metav1.ConditionStatus) func(*v1beta1.Tenant) {
	return having(v1beta1.ConditionReady, status, "", "")
}

func mapping(t *testing.T, now *testingclock.FakeClock, tenants ...client.Object) *Reconciler {
	t.Helper()
	return &Reconciler{Client: store(t, tenants...), Clock: now,
		Options: Options{AdminClusterRole: "admin", SyncPeriod: 10 * time.Minute}}
}

func requested(requests []reconcile.Request) string {
	names := []string{}
	for _, r := range requests {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return fmt.Sprint(slices.Compact(names))
}

// The resync reconciles Ready Tenants that are due, and no others.
func TestTenantsDue(t *testing.T) {
	now := testingclock.NewFakeClock(epoch)
	r := mapping(t, now, tenant("seen", ready(metav1.ConditionTrue)), tenant("new", ready(metav1.ConditionTrue)),
		tenant("failing", ready(metav1.ConditionFalse)), tenant("fresh"))
	r.lastReconciled.Store("seen", epoch)
	seen := reconciler.NextDue(epoch, 10*time.Minute, "uid-seen")
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{0, "[new]"},
		{8 * time.Minute, "[new]"},
		{seen.Sub(epoch) - 8*time.Minute - 1, "[new]"},
		{1, "[new seen]"}, // exactly when the period ends
	} {
		now.Step(step.after)
		if got := requested(r.tenantsDue(t.Context(), nil)); got != step.want {
			t.Errorf("after %s more: due %s, want %s", step.after, got, step.want)
		}
	}
}

func TestMapFuncs(t *testing.T) {
	a := tenant("a", owning("a-old"))
	r := mapping(t, testingclock.NewFakeClock(epoch), a, tenant("b"))
	owned := []metav1.OwnerReference{*metav1.NewControllerRef(a, tenantKind)}
	meta := func(namespace, name string, refs ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: refs}
	}
	for reason, tc := range map[string]struct {
		got  []reconcile.Request
		want string
	}{
		"a namespace that is listed": {r.tenantsOfNamespace(t.Context(), namespace("a-dev")), "[a]"},
		"one that is still held":     {r.tenantsOfNamespace(t.Context(), namespace("a-old")), "[a]"},
		"one that claims to be a Tenant's": {r.tenantsOfNamespace(t.Context(),
			&corev1.Namespace{ObjectMeta: meta("", "x", owned...)}), "[a]"},
		"one that has the label of a Tenant": {r.tenantsOfNamespace(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{v1beta1.LabelTenant: "b"}}}),
			"[b]"},
		"one that is of another kind of Tenant": {r.tenantsOfNamespace(t.Context(),
			&corev1.Namespace{ObjectMeta: meta("", "x", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Tenant",
				Name: "a"}, metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "StorageBucket", Name: "b"})}),
			"[]"},
		"one without an owner": {r.tenantsOfNamespace(t.Context(), namespace("x")), "[]"},
		"our binding": {r.tenantsOfBinding(t.Context(),
			&rbacv1.RoleBinding{ObjectMeta: meta("a-dev", adminBindingName)}), "[a]"},
		"a binding elsewhere that claims to be a Tenant's": {r.tenantsOfBinding(t.Context(),
			&rbacv1.RoleBinding{ObjectMeta: meta("x", adminBindingName, owned...)}), "[]"},
		"the role of all admins": {r.tenantsOfRole(t.Context(),
			&rbacv1.ClusterRole{ObjectMeta: meta("", "admin")}), "[a b]"},
		"a binding that is only called like the role": {r.tenantsOfRole(t.Context(),
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "admin")}), "[]"},
		"a role under the name we would use": {r.tenantsOfRole(t.Context(),
			&rbacv1.ClusterRole{ObjectMeta: meta("", readerNamePrefix+"b")}), "[b]"},
		"a role with the label of a Tenant": {r.tenantsOfRole(t.Context(),
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{v1beta1.LabelTenant: "b"}}}),
			"[b]"},
		"the end of a Tenant with shared names": {r.tenantsSharing(t.Context(),
			tenant("c", prefix("a-"), naming("dev", "old"))), "[a]"},
		"a role without an owner": {r.tenantsOfRole(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta("", "view")}), "[]"},
	} {
		if got := requested(tc.got); got != tc.want {
			t.Errorf("%s: requests %s, want %s", reason, got, tc.want)
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
	r, err := New(m, Options{})
	if err != nil || r.Client != m.client || r.Live != client.Reader(m.live) {
		t.Errorf("New() = %+v, %v, does not use the manager's client and reader", r, err)
	}
}
