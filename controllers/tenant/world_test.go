package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
)

// world is a Reconciler with an in-memory API server and a cache that a test can keep
// stale. Integration specs test the writes with a real API server.
type world struct {
	t        testing.TB
	live     client.WithWatch
	cache    client.Client
	r        *Reconciler
	recorder *events.FakeRecorder
	// deny, unless nil, returns the error for a write, or nil to execute it.
	deny func(verb string, o client.Object) error
}

// kinds returns a list of each kind in a world.
func kinds() []client.ObjectList {
	return []client.ObjectList{&v1beta1.TenantList{}, &corev1.NamespaceList{}, &rbacv1.RoleBindingList{},
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}}
}

// newWorld returns a world with these objects, also in the cache.
func newWorld(t testing.TB, objects ...client.Object) *world {
	t.Helper()
	admin := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}
	w := &world{t: t, live: fakeBuilder(t, append(objects, admin)...).WithStatusSubresource(&v1beta1.Tenant{}).Build(),
		recorder: events.NewFakeRecorder(1000)}
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	w.r = &Reconciler{
		Client: w.client(), Live: w.live, Recorder: w.recorder, Clock: testingclock.NewFakePassiveClock(epoch), metrics: m,
		Options: Options{AdminClusterRole: "admin", OperatorNamespace: "leasehold-system", PodSecurityLevel: "baseline"},
	}
	w.sync()
	return w
}

// sync updates the cache with all objects of the API server.
func (w *world) sync() {
	w.t.Helper()
	var objects []client.Object
	for _, list := range kinds() {
		w.must(w.live.List(w.t.Context(), list))
		objects = append(objects, items(w.t, list)...)
	}
	w.cache = fakeBuilder(w.t, objects...).WithStatusSubresource(&v1beta1.Tenant{}).Build()
}

// syncTenants updates only the Tenants of the cache.
func (w *world) syncTenants() {
	w.t.Helper()
	var objects []client.Object
	for _, list := range kinds() {
		reader := client.Reader(w.cache)
		if _, ok := list.(*v1beta1.TenantList); ok {
			reader = w.live
		}
		w.must(reader.List(w.t.Context(), list))
		objects = append(objects, items(w.t, list)...)
	}
	w.cache = fakeBuilder(w.t, objects...).WithStatusSubresource(&v1beta1.Tenant{}).Build()
}

// reconcile reconciles the Tenant a.
func (w *world) reconcile() error {
	_, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}})
	return err
}

// client returns a client that reads from the cache and writes to the API server.
func (w *world) client() client.Client {
	return interceptor.NewClient(w.live, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			return w.cache.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return w.cache.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := w.denied("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			if err := w.denied("patch", o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := w.denied("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration,
			_ ...client.ApplyOption) error {
			return w.apply(ctx, c, config)
		},
	})
}

func (w *world) denied(verb string, o client.Object) error {
	if w.deny == nil {
		return nil
	}
	return w.deny(verb, o)
}

// apply implements the part of server-side apply with force that the controller uses.
func (w *world) apply(ctx context.Context, c client.Client, config runtime.ApplyConfiguration) error {
	var desired, stored client.Object
	switch config.(type) {
	case *corev1ac.NamespaceApplyConfiguration:
		desired, stored = &corev1.Namespace{}, &corev1.Namespace{}
	case *rbacv1ac.RoleBindingApplyConfiguration:
		desired, stored = &rbacv1.RoleBinding{}, &rbacv1.RoleBinding{}
	case *rbacv1ac.ClusterRoleApplyConfiguration:
		desired, stored = &rbacv1.ClusterRole{}, &rbacv1.ClusterRole{}
	case *rbacv1ac.ClusterRoleBindingApplyConfiguration:
		desired, stored = &rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRoleBinding{}
	default:
		return fmt.Errorf("applying %T: not implemented", config)
	}
	data, err := json.Marshal(config)
	w.must(err)
	w.must(json.Unmarshal(data, desired))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, desired.GetName(),
		errors.New("precondition failed"))
	version := desired.GetResourceVersion()
	err = c.Get(ctx, client.ObjectKeyFromObject(desired), stored)
	switch exists := err == nil; {
	case client.IgnoreNotFound(err) != nil:
		return err
	case !exists && version != "1", exists &&
		(version != stored.GetResourceVersion() || desired.GetUID() != stored.GetUID()):
		return conflict
	case !exists:
		if err := w.denied("create", desired); err != nil {
			return err
		}
		desired.SetResourceVersion("")
		desired.SetUID(types.UID(fmt.Sprintf("made-%s-%s", desired.GetNamespace(), desired.GetName())))
		if ns, ok := config.(*corev1ac.NamespaceApplyConfiguration); ok {
			ns.WithUID(desired.GetUID())
		}
		return c.Create(ctx, desired)
	}
	if err := w.denied("patch", desired); err != nil {
		return err
	}
	if err := merge(stored, desired); err != nil {
		return err
	}
	return c.Update(ctx, stored)
}

// merge adds the desired metadata to the stored one, and replaces all other fields.
func merge(stored, desired client.Object) error {
	labels, annotations, owners := stored.GetLabels(), stored.GetAnnotations(), stored.GetOwnerReferences()
	for k, v := range desired.GetLabels() {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[k] = v
	}
	for k, v := range desired.GetAnnotations() {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[k] = v
	}
	for _, ref := range desired.GetOwnerReferences() {
		owners = append(slices.DeleteFunc(owners, func(had metav1.OwnerReference) bool { return had.UID == ref.UID }), ref)
	}
	controllers := 0
	for _, ref := range owners {
		if ref.Controller != nil && *ref.Controller {
			controllers++
		}
	}
	if controllers > 1 {
		return apierrors.NewInvalid(schema.GroupKind{}, stored.GetName(), nil)
	}
	stored.SetLabels(labels)
	stored.SetAnnotations(annotations)
	stored.SetOwnerReferences(owners)
	switch s := stored.(type) {
	case *rbacv1.RoleBinding:
		s.Subjects = desired.(*rbacv1.RoleBinding).Subjects
	case *rbacv1.ClusterRoleBinding:
		s.Subjects = desired.(*rbacv1.ClusterRoleBinding).Subjects
	case *rbacv1.ClusterRole:
		s.Rules = desired.(*rbacv1.ClusterRole).Rules
	}
	return nil
}

// items returns the objects of a list.
func items(t testing.TB, list client.ObjectList) []client.Object {
	t.Helper()
	found, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	objects := make([]client.Object, len(found))
	for i := range found {
		objects[i] = found[i].(client.Object)
	}
	return objects
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// find returns an object of the API server, or nil if it does not exist.
func find[T any, P interface {
	*T
	client.Object
}](w *world, namespace, name string) P {
	w.t.Helper()
	o := P(new(T))
	err := w.live.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return o
}
