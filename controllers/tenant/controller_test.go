package tenant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
)

// denied is the API server's error for a write of a replica that is not the leader.
func denied() error {
	const message = "ValidatingAdmissionPolicy 'leasehold-fence.leasehold.dev' with binding 'b' denied request: Pod a does not hold the Lease"
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "x", errors.New(message))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: message}}
	return err
}

func fresh(t *v1beta1.Tenant) { t.Finalizers = nil }

// The fence denies every kind of write of a former leader. The reconcile then returns
// without an event or an error, and runs again soon.
func TestFormerLeaderReportsNothing(t *testing.T) {
	pending := func(t *v1beta1.Tenant) { t.Status = intent(t, []string{"a-dev"}, epoch) }
	owner := tenant("a")
	for wanting, tc := range map[string]struct {
		objects []client.Object
		tried   string // among the writes
	}{
		"to hold a new Tenant":  {[]client.Object{tenant("a", naming("dev"), fresh)}, "patch"},
		"to declare a name":     {[]client.Object{tenant("a", naming("dev"))}, "status"},
		"to create a namespace": {[]client.Object{tenant("a", naming("dev"), pending)}, "apply"},
		"to delete a namespace": {[]client.Object{tenant("a", deleted, owning("a-dev")), namespace("a-dev", ownedBy(owner))},
			"delete"},
		"to let a namespace go": {[]client.Object{tenant("a", retaining, deleted, owning("a-dev")),
			namespace("a-dev", ownedBy(owner))}, "patch"},
		"to let the Tenant go":   {[]client.Object{tenant("a", deleted)}, "patch"},
		"to report a bad name":   {[]client.Object{tenant("a", naming("Dev"))}, "apply"},
		"to let the admins read": {[]client.Object{tenant("a", naming("dev")), namespace("a-dev")}, "apply"},
	} {
		t.Run(wanting, func(t *testing.T) {
			tried := map[string]int{}
			refuse := func(what string) error { tried[what]++; return denied() }
			r, recorder := deniedWorld(t, refuse, tc.objects...)
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}})
			if err != nil || result != (ctrl.Result{RequeueAfter: reconciler.RetryAfterConflict}) {
				t.Errorf("got %v, %v, want another reconcile soon", result, err)
			}
			if tried[tc.tried] == 0 {
				t.Errorf("attempted %v, want %s", tried, tc.tried)
			}
			if n := len(recorder.Events); n > 0 {
				t.Errorf("event %q, want none", <-recorder.Events)
			}
		})
	}
}

// A stale cache still shows a namespace that the operator has deleted. The operator
// neither deletes nor reports it again.
func TestDeletionIsReportedOnce(t *testing.T) {
	owner := tenant("a", deleted, owning("a-dev"))
	cached := namespace("a-dev", ownedBy(owner))
	leaving, anew := cached.DeepCopy(), cached.DeepCopy()
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: epoch}, []string{"example.com/held"}
	anew.UID = "another"
	given := namespace("a-dev", ownedBy(tenant("b")))
	orphaned := namespace("a-dev", ownedBy(owner), func(ns *corev1.Namespace) { ns.OwnerReferences = nil })
	for is, tc := range map[string]struct {
		live []client.Object
		want int
	}{
		"there":      {[]client.Object{cached}, 1},
		"leaving":    {[]client.Object{leaving}, 0},
		"gone":       {nil, 0},
		"made again": {[]client.Object{anew}, 0},
		"given away": {[]client.Object{given}, 0},
		"orphaned":   {[]client.Object{orphaned}, 0},
	} {
		t.Run(is, func(t *testing.T) {
			deletions := 0
			r, recorder := deniedWorld(t, func(what string) error {
				if what == "delete" {
					deletions++
				}
				return nil
			}, owner.DeepCopy(), cached.DeepCopy())
			r.Live = fakeBuilder(t, tc.live...).Build()
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}}); err != nil {
				t.Fatal(err)
			}
			reported := 0
			for len(recorder.Events) > 0 {
				if strings.Contains(<-recorder.Events, v1beta1.EventNamespaceDeleted) {
					reported++
				}
			}
			if deletions != tc.want || reported != tc.want {
				t.Errorf("%d deletions and %d events, want %d", deletions, reported, tc.want)
			}
		})
	}
}

// Names are declared in the status before creation. So a reconcile of a terminating
// Tenant reads only the names of the status from the API server.
func TestLiveReadsAreLimitedToRecordedNames(t *testing.T) {
	owner := tenant("a", deleted, naming("dev", "prod"), owning("a-prod"))
	unseen := namespace("a-prod", ownedBy(owner)) // not in the cache
	r, _ := deniedWorld(t, func(string) error { return nil }, owner)
	var read []string
	r.Live = fakeBuilder(t, unseen).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			read = append(read, key.Name)
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	o, err := r.observe(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a-prod"}; !slices.Equal(read, want) {
		t.Errorf("live reads of %q, want %q", read, want)
	}
	if len(o.namespaces) != 1 || o.namespaces["a-prod"] == nil {
		t.Errorf("found %v, want a-prod, which the cache does not show", o.namespaces)
	}
}

// A stale cache may show removed claims or miss new ones. The status reports as foreign
// what the API server shows.
func TestForeignNamespacesAreReadLive(t *testing.T) {
	owner := tenant("a", naming("dev"))
	claims, bare := namespace("x", ownedBy(owner)), namespace("x")
	anew := namespace("x", ownedBy(tenant("b")))
	for is, tc := range map[string]struct {
		cached, live *corev1.Namespace
		want         int
	}{
		"claiming":                 {claims, claims, 1},
		"bare again":               {claims, bare, 0},
		"gone":                     {claims, nil, 0},
		"claiming another by now":  {claims, anew, 0},
		"not seen by the cache":    {bare, claims, 0},
		"bare in both":             {bare, bare, 0},
		"claiming another in both": {anew, anew, 0},
	} {
		t.Run(is, func(t *testing.T) {
			w := newWorld(t, owner.DeepCopy())
			if tc.live != nil {
				w.must(w.live.Create(t.Context(), tc.live.DeepCopy()))
			}
			w.cache = fakeBuilder(t, owner.DeepCopy(), tc.cached.DeepCopy()).Build()
			o, err := w.r.observe(t.Context(), owner)
			w.must(err)
			if len(o.foreign) != tc.want {
				t.Errorf("foreign: %v, want %d", namesOf(o.foreign), tc.want)
			}
		})
	}
}

// deniedWorld returns a Reconciler whose writes all return the error of refuse.
func deniedWorld(t *testing.T, refuse func(what string) error,
	objects ...client.Object) (*Reconciler, *events.FakeRecorder) {
	t.Helper()
	admin := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}
	builder := fakeBuilder(t, append(objects, admin)...).WithStatusSubresource(&v1beta1.Tenant{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return refuse("apply")
			},
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return refuse("patch")
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return refuse("delete")
			},
			SubResourcePatch: func(_ context.Context, _ client.Client, sub string, _ client.Object, _ client.Patch,
				_ ...client.SubResourcePatchOption) error {
				return refuse(sub)
			},
		})
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c, recorder := builder.Build(), events.NewFakeRecorder(100)
	return &Reconciler{
		Client: c, Live: c, Recorder: recorder, Clock: testingclock.NewFakePassiveClock(epoch), metrics: m,
		Options: Options{AdminClusterRole: "admin", OperatorNamespace: "leasehold-system"},
	}, recorder
}
