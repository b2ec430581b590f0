package tenant

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// mostReconciles exceeds the reconciles of every scenario.
const mostReconciles = 12

// recording is a world that records the requests and events of its reconciles as lines. A
// test can fail each request.
type recording struct {
	*world
	reconcilertest.Recording

	requests map[string]int // how often each was sent
	last     string         // what the last reconcile did
	// fail returns the error for a request, or nil to pass it on; a nil func passes all.
	fail func(request string) error
}

func newRecording(t testing.TB, s scenario) *recording {
	t.Helper()
	copies := make([]client.Object, len(s.objects))
	for i, o := range s.objects {
		copies[i] = o.DeepCopyObject().(client.Object)
	}
	r := &recording{world: newWorld(t, copies...), requests: map[string]int{}}
	r.Recording = reconcilertest.Recording{T: t, OnRequest: r.onRequest}
	if s.deny != nil {
		r.deny = s.deny()
	}
	if s.options != nil {
		s.options(&r.r.Options)
	}
	r.r.Client, r.r.Live, r.r.Recorder = r.Intercept(r.r.Client.(client.WithWatch), true), r.Intercept(r.live, false), r
	return r
}

// onRequest records one request, and returns the error of fail. Reads from the cache are not
// recorded, since they cause no request.
func (r *recording) onRequest(q reconcilertest.Request) error {
	line, isRead := q.Name, q.Verb == "get" || q.Verb == "list"
	if isRead && q.Cached {
		line = "cached " + line
	} else if isRead {
		line = "live " + line
	}
	name := line
	r.requests[name]++
	if n := r.requests[name]; n > 1 {
		name += fmt.Sprintf(" (%d)", n)
		r.requests[name]++
	}
	if !isRead && q.Verb != "patch status" {
		line += " " + byTenant(q.Body)
	}
	if !isRead || !q.Cached {
		r.Line("%s", line)
	}
	if r.fail != nil {
		if err := r.fail(name); err != nil {
			return err
		}
	}
	if q.Verb == "patch status" {
		r.Lines = append(r.Lines, statusLines(q.Object.(*v1beta1.Tenant).Status)...)
	}
	return nil
}

// byTenant shortens the owner reference of a child of the Tenant a.
func byTenant(text []byte) string {
	const reference = `{"apiVersion":"leasehold.dev/v1beta1","kind":"Tenant","name":"a","uid":"uid-a","controller":true,"blockOwnerDeletion":true}`
	return strings.ReplaceAll(string(text), reference, "{the Tenant}")
}

// Eventf implements events.EventRecorder.
func (r *recording) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	line := fmt.Sprintf("event %s %s %s %q of %s", kind, reason, action, fmt.Sprintf(note, args...),
		reconcilertest.NameOf(regarding.(client.Object)))
	if related != nil {
		line += " about " + byTenant(r.JSON(related))
	}
	r.Lines = append(r.Lines, line)
}

func statusLines(status v1beta1.TenantStatus) []string {
	lines := []string{fmt.Sprintf("    generation %d", status.ObservedGeneration)}
	for _, c := range status.Conditions {
		lines = append(lines, fmt.Sprintf("    %s %s %s at generation %d since %s: %s", c.Type, c.Status, c.Reason,
			c.ObservedGeneration,
			c.LastTransitionTime.UTC().Format(time.TimeOnly), c.Message))
	}
	for _, ns := range status.Namespaces {
		lines = append(lines, fmt.Sprintf("    %s %q %s", ns.Name, ns.UID, ns.Reason))
	}
	return lines
}

// reconcile runs one reconcile and records its result.
func (r *recording) reconcile() (ctrl.Result, error) {
	from := len(r.Lines)
	result, err := r.r.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}})
	if result != (ctrl.Result{}) {
		r.Lines = append(r.Lines, fmt.Sprintf("again after %s", result.RequeueAfter))
	}
	if err != nil {
		r.Lines = append(r.Lines, "error: "+err.Error())
	}
	did := strings.Join(r.Lines[from:], "\n")
	if r.Lines = append(r.Lines, ""); did == r.last {
		r.Lines = append(r.Lines[:from], "nothing else", "")
	}
	r.last = did
	return result, err
}

// settle reconciles until a reconcile changes no object and repeats the requests of the
// one before. It updates the cache before each.
func (r *recording) settle() {
	r.t.Helper()
	before, did := "", "-"
	for n := 0; before != r.state() || did != r.last; n++ {
		if n == mostReconciles {
			r.t.Fatalf("after %d reconciles there is still something to do:\n%s", n, r.last)
		}
		before, did = r.state(), r.last
		r.sync()
		_, _ = r.reconcile() // the error is recorded
	}
}

// state returns all objects of the API server without resource versions, and without the
// status of a released Tenant.
func (r *recording) state() string {
	r.t.Helper()
	var text strings.Builder
	for _, list := range kinds() {
		r.must(r.live.List(r.t.Context(), list))
		for _, o := range items(r.t, list) {
			o.SetResourceVersion("")
			if x, ok := o.(*v1beta1.Tenant); ok && !controllerutil.ContainsFinalizer(x, v1beta1.TenantFinalizer) {
				x.Status = v1beta1.TenantStatus{}
			}
			fmt.Fprintf(&text, "%s %s\n", reconcilertest.NameOf(o), byTenant(r.JSON(o)))
		}
	}
	return text.String()
}

// status returns the status of the Tenant, or an empty one if the Tenant does not exist.
func (r *recording) status() v1beta1.TenantStatus {
	if t := find[v1beta1.Tenant](r.world, "", "a"); t != nil {
		return t.Status
	}
	return v1beta1.TenantStatus{}
}

// events returns the recorded events.
func (r *recording) events() []string {
	return slices.DeleteFunc(slices.Clone(r.Lines), func(line string) bool { return !strings.HasPrefix(line, "event ") })
}

// TestReconcileGolden records the operator's live reads, writes and events until the
// Tenant is reconciled.
func TestReconcileGolden(t *testing.T) {
	reconcilertest.Golden(t, scenarios(), func(s scenario) string {
		r := newRecording(t, s)
		r.settle()
		r.Series(r.r.metrics.added, r.r.metrics.removed, r.r.metrics.namespaces)
		return strings.Join(r.Lines, "\n")
	})
}
