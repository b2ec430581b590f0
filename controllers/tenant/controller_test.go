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

// denied is the answer of the API server to whoever does not lead.
func denied() error {
	const message = "ValidatingAdmissionPolicy 'leasehold-fence.leasehold.dev' with binding 'b' denied request: Pod a does not hold the Lease"
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "x", errors.New(message))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: message}}
	return err
}

func fresh(t *v1beta1.Tenant) { t.Finalizers = nil }

// Whatever a reconcile was about to write: a former leader is denied it, says nothing
// of that, and is not held up by it.
func TestWhoDoesNotLeadSaysNothing(t *testing.T) {
	pending := func(t *v1beta1.Tenant) { t.Status = intent(t, []string{"a-dev"}, epoch) }
	owner := tenant("a")
	for wanting, tc := range map[string]struct {
		objects []client.Object
		tried   string // among the writes
	}{
		"to hold a new Tenant":   {[]client.Object{tenant("a", asking("dev"), fresh)}, "patch"},
		"to declare a name":      {[]client.Object{tenant("a", asking("dev"))}, "status"},
		"to create a namespace":  {[]client.Object{tenant("a", asking("dev"), pending)}, "apply"},
		"to delete a namespace":  {[]client.Object{tenant("a", deleted, holding("a-dev")), namespace("a-dev", markedBy(owner))}, "delete"},
		"to let a namespace go":  {[]client.Object{tenant("a", retaining, deleted, holding("a-dev")), namespace("a-dev", markedBy(owner))}, "patch"},
		"to let the Tenant go":   {[]client.Object{tenant("a", deleted)}, "patch"},
		"to report a bad name":   {[]client.Object{tenant("a", asking("Dev"))}, "apply"},
		"to let the admins read": {[]client.Object{tenant("a", asking("dev")), namespace("a-dev")}, "apply"},
	} {
		t.Run(wanting, func(t *testing.T) {
			tried := map[string]int{}
			refuse := func(what string) error { tried[what]++; return denied() }
			r, recorder := deniedWorld(t, refuse, tc.objects...)
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}})
			if err != nil || result != (ctrl.Result{RequeueAfter: reconciler.RetryAfterConflict}) {
				t.Errorf("got %v, %v, want another look soon", result, err)
			}
			if tried[tc.tried] == 0 {
				t.Errorf("tried to %v, want to %s", tried, tc.tried)
			}
			if n := len(recorder.Events); n > 0 {
				t.Errorf("said %q, want nothing", <-recorder.Events)
			}
		})
	}
}

// A late cache shows a namespace that we have deleted as if we had not: that is not
// done again, nor told of again.
func TestADeletionIsToldOfOnce(t *testing.T) {
	owner := tenant("a", deleted, holding("a-dev"))
	cached := namespace("a-dev", markedBy(owner))
	leaving, anew := cached.DeepCopy(), cached.DeepCopy()
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: epoch}, []string{"example.com/held"}
	anew.UID = "another"
	given := namespace("a-dev", markedBy(tenant("b")))
	orphaned := namespace("a-dev", markedBy(owner), func(ns *corev1.Namespace) { ns.OwnerReferences = nil })
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
			told := 0
			for len(recorder.Events) > 0 {
				if strings.Contains(<-recorder.Events, v1beta1.EventNamespaceDeleted) {
					told++
				}
			}
			if deletions != tc.want || told != tc.want {
				t.Errorf("deleted %d times and told %d times, want %d", deletions, told, tc.want)
			}
		})
	}
}

// Only what the status lists can have been made, so of a Tenant on its way out only
// that is asked for live: what is forgotten is not asked for in each reconcile again.
func TestWhatIsForgottenIsNotAskedForAgain(t *testing.T) {
	owner := tenant("a", deleted, asking("dev", "prod"), holding("a-prod"))
	unseen := namespace("a-prod", markedBy(owner)) // by the cache
	r, _ := deniedWorld(t, func(string) error { return nil }, owner)
	var asked []string
	r.Live = fakeBuilder(t, unseen).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			asked = append(asked, key.Name)
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	o, err := r.observe(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a-prod"}; !slices.Equal(asked, want) {
		t.Errorf("asked the API server for %q, want %q", asked, want)
	}
	if len(o.namespaces) != 1 || o.namespaces["a-prod"] == nil {
		t.Errorf("found %v, want a-prod, which the cache does not show", o.namespaces)
	}
}

// A stale cache shows claims that were taken back, and shows some that are new: the API
// server decides what is reported as foreign.
func TestForeignIsWhatTheAPIServerShows(t *testing.T) {
	owner := tenant("a", asking("dev"))
	claims, bare := namespace("x", markedBy(owner)), namespace("x")
	anew := namespace("x", markedBy(tenant("b")))
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

// deniedWorld is a Reconciler whose every write is answered by refuse.
func deniedWorld(t *testing.T, refuse func(what string) error, objects ...client.Object) (*Reconciler, *events.FakeRecorder) {
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
			SubResourcePatch: func(_ context.Context, _ client.Client, sub string, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
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
