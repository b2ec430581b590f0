// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
	"leasehold.dev/controllers/internal/reporting"
)

// mostReconciles exceeds the reconciles of every scenario.
const mostReconciles = 12

// refusal returns the error of a request, or nil to send it. A name that was sent before ends in a number.
type refusal = func(reconcilertest.Request) error

// world is a Reconciler with an in-memory API server, a cache that a test can keep stale, and a record
// of its requests and events. Integration specs test the writes with a real API server.
type world struct {
	reconcilertest.Recording

	live   client.WithWatch
	cache  client.Client
	r      *Reconciler
	clock  *testingclock.FakePassiveClock
	deny   refusal      // nil sends all requests
	unseen func(*world) // changes objects after the next sync, so the cache does not show it
	late   bool         // the cache shows no write of a Tenant before the next sync
	// ineffective has an admission webhook restore what an apply changes in a namespace.
	ineffective bool
	requests    map[string]int // how often each was sent
	last        string         // what the last reconcile did
}

// newWorld returns a world with copies of these objects, also in the cache.
func newWorld(t testing.TB, objects ...client.Object) *world {
	t.Helper()
	admin := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}
	w := &world{live: store(t, append(objects, admin)...), requests: map[string]int{}}
	w.clock = testingclock.NewFakePassiveClock(epoch)
	w.Recording = reconcilertest.Recording{T: t, OnRequest: w.onRequest}
	cached := interceptor.NewClient(w.live, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			return w.cache.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return w.cache.List(ctx, list, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if (&client.DeleteOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency {
				w.Lines[len(w.Lines)-1] += ", no read waits for it"
			}
			return c.Delete(ctx, o, opts...)
		},
		Apply: w.apply,
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			err := c.Patch(ctx, o, p, opts...)
			if _, ok := o.(*v1beta1.Tenant); ok && !w.late {
				w.syncTenants()
			}
			return err
		},
	})
	w.r = &Reconciler{Base: reconciler.Base{Client: w.Intercept(cached, true), Live: w.Intercept(w.live, false),
		Recorder: &w.Recording, Clock: w.clock}, metrics: newMetrics(prometheus.NewRegistry()), Options: flags}
	w.sync()
	return w
}

// indexes adds the cache's field indexes to a fake client.
type indexes struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexes) IndexField(_ context.Context, o client.Object, field string, keys client.IndexerFunc) error {
	i.WithIndex(o, field, keys)
	return nil
}

// store returns a client with copies of these objects and the indexes of this package.
func store(t testing.TB, objects ...client.Object) client.WithWatch {
	t.Helper()
	builder := reconcilertest.NewClientBuilder().WithStatusSubresource(&v1beta1.Tenant{})
	for _, o := range objects {
		builder.WithObjects(o.DeepCopyObject().(client.Object))
	}
	utilruntime.Must(addIndexes(t.Context(), indexes{builder}))
	return builder.Build()
}

// apply adds to the server-side apply of the fake what the API server does: the preconditions, a UID for
// a new object, and no second controller.
func (w *world) apply(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration,
	opts ...client.ApplyOption) error {
	desired, stored := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	w.must(json.Unmarshal(w.JSON(config), desired))
	stored.SetGroupVersionKind(desired.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(desired), stored)
	w.must(client.IgnoreNotFound(err))
	had, now := metav1.GetControllerOf(stored), metav1.GetControllerOf(desired)
	switch {
	case err != nil && desired.GetResourceVersion() == "1":
		desired.SetUID(types.UID(fmt.Sprintf("made-%s-%s", desired.GetNamespace(), desired.GetName())))
		desired.SetResourceVersion("")
		err = c.Create(ctx, desired)
	case desired.GetUID() != stored.GetUID(),
		desired.GetResourceVersion() != "" && desired.GetResourceVersion() != stored.GetResourceVersion():
		return changed()
	case had != nil && now != nil && had.UID != now.UID:
		return apierrors.NewInvalid(schema.GroupKind{}, desired.GetName(), nil)
	case w.ineffective && desired.GetKind() == "Namespace":
		desired, err = stored, nil
	default:
		err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), opts...)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(w.JSON(desired), config)
}

// kinds returns a list of each kind.
func kinds() []client.ObjectList {
	return []client.ObjectList{&v1beta1.TenantList{}, &corev1.NamespaceList{}, &rbacv1.RoleBindingList{},
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}}
}

// sync updates the cache with all objects of the API server.
func (w *world) sync() {
	w.T.Helper()
	w.cache = w.live
	w.syncTenants()
	if unseen := w.unseen; unseen != nil {
		w.unseen = nil
		unseen(w)
	}
}

// syncTenants updates only the Tenants of the cache.
func (w *world) syncTenants() {
	w.T.Helper()
	var objects []client.Object
	for _, list := range kinds() {
		reader := client.Reader(w.cache)
		if _, ok := list.(*v1beta1.TenantList); ok {
			reader = w.live
		}
		objects = append(objects, w.list(reader, list)...)
	}
	w.cache = store(w.T, objects...)
}

func (w *world) list(reader client.Reader, list client.ObjectList) []client.Object {
	w.T.Helper()
	w.must(reader.List(w.T.Context(), list))
	found, err := meta.ExtractList(list)
	w.must(err)
	objects := make([]client.Object, len(found))
	for i := range found {
		objects[i] = found[i].(client.Object)
	}
	return objects
}

// onRequest records one request, and returns the error of deny. Reads from the cache are not recorded,
// since they cause no request.
func (w *world) onRequest(q reconcilertest.Request) error {
	isRead := q.Verb == "get" || q.Verb == "list"
	if isRead && q.Cached {
		q.Name = "cached " + q.Name
	} else if isRead {
		q.Name = "live " + q.Name
	}
	line := q.Name
	w.requests[q.Name]++
	if n := w.requests[q.Name]; n > 1 {
		q.Name += fmt.Sprintf(" (%d)", n)
		w.requests[q.Name]++
	}
	if !isRead && q.Verb != "patch status" {
		w.Line("  %s %s", line, byTenant(q.Body))
	}
	if w.deny != nil {
		if err := w.deny(q); err != nil {
			return err
		}
	}
	return nil
}

// byTenant shortens the owner reference of a child of the Tenant a.
func byTenant(text []byte) string {
	const reference = `{"apiVersion":"leasehold.dev/v1beta1","kind":"Tenant","name":"a","uid":"uid-a","controller":true,"blockOwnerDeletion":true}`
	return strings.ReplaceAll(string(text), reference, "{the Tenant}")
}

// reconcile reconciles the Tenant a, and records the result.
func (w *world) reconcile() (ctrl.Result, error) {
	from := len(w.Lines)
	result, err := w.r.Reconcile(w.T.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}})
	if result != (ctrl.Result{}) {
		w.Line("  again after %s", result.RequeueAfter)
	}
	if err != nil {
		w.Line("  error: %v", err)
	}
	did := strings.Join(w.Lines[from:], "\n")
	if did == w.last {
		w.Lines = w.Lines[:from]
	}
	w.last = did
	return result, err
}

// settle reconciles until a reconcile changes no object and repeats the requests of the one before. It
// updates the cache before each.
func (w *world) settle() {
	w.T.Helper()
	before, did := "", "-"
	for n := 0; before != w.state() || did != w.last; n++ {
		if n == mostReconciles {
			w.T.Fatalf("after %d reconciles there is still something to do:\n%s", n, w.last)
		}
		before, did = w.state(), w.last
		_, _ = w.round() // the error is recorded
	}
}

// round reconciles with a current cache.
func (w *world) round() (ctrl.Result, error) {
	w.T.Helper()
	w.sync()
	return w.reconcile()
}

// state returns all objects of the API server without resource versions and times, without the status of
// a released Tenant, and without the condition DriftCorrected, which a write that fails does not repeat.
func (w *world) state() string {
	w.T.Helper()
	var text strings.Builder
	for _, list := range kinds() {
		for _, o := range w.list(w.live, list) {
			o.SetResourceVersion("")
			if o.GetDeletionTimestamp() != nil {
				o.SetDeletionTimestamp(&metav1.Time{Time: epoch}) // the fake takes it from the clock
			}
			if x, ok := o.(*v1beta1.Tenant); ok {
				meta.RemoveStatusCondition(&x.Status.Conditions, v1beta1.ConditionDriftCorrected)
				for i := range x.Status.Conditions {
					x.Status.Conditions[i].LastTransitionTime = metav1.Time{}
				}
				if !controllerutil.ContainsFinalizer(x, v1beta1.TenantFinalizer) {
					x.Status = v1beta1.TenantStatus{}
				}
			}
			fmt.Fprintf(&text, "%s %s\n", reconcilertest.NameOf(o), byTenant(w.JSON(o)))
		}
	}
	return text.String()
}

func (w *world) must(err error) {
	if w.T.Helper(); err != nil {
		w.T.Fatal(err)
	}
}

// find returns an object of the API server, or nil if it does not exist.
func find[T any, P interface {
	*T
	client.Object
}](w *world, namespace, name string) P {
	o := P(new(T))
	err := w.live.Get(w.T.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return o
}

// edit changes a namespace at the API server.
func (w *world) edit(name string, change func(*corev1.Namespace)) {
	w.T.Helper()
	ns := find[corev1.Namespace](w, "", name)
	change(ns)
	w.must(w.live.Update(w.T.Context(), ns))
}

// status returns the status of the Tenant, or an empty one if the Tenant does not exist.
func (w *world) status() v1beta1.TenantStatus {
	if t := find[v1beta1.Tenant](w, "", "a"); t != nil {
		return t.Status
	}
	return v1beta1.TenantStatus{}
}

func (w *world) ready() metav1.Condition {
	return reporting.FindCondition(w.status().Conditions, v1beta1.ConditionReady)
}

// corrected returns what the Tenant reports as a drift, or "".
func (w *world) corrected() string {
	return reporting.FindCondition(w.status().Conditions, v1beta1.ConditionDriftCorrected).Message
}

// bindingText returns the role and the users of the admins' binding; "" if there is none.
func (w *world) bindingText() string {
	w.T.Helper()
	b := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)
	if b == nil {
		return ""
	}
	text := b.RoleRef.Name
	for _, s := range b.Subjects {
		text += " " + s.Name
	}
	return text
}
