package tenant

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// requestsOf returns the requests of a scenario's reconciles, and the final state. It omits
// the third and later requests of one name, which a reconciled Tenant repeats.
func requestsOf(t *testing.T, s scenario) (requests []string, state string) {
	t.Helper()
	r := newRecording(t, s)
	r.settle()
	for request := range r.requests {
		if !strings.HasSuffix(request, ")") || strings.HasSuffix(request, " (2)") {
			requests = append(requests, request)
		}
	}
	slices.Sort(requests)
	return requests, r.state()
}

// failed reconciles until the request of that name is sent, and fails it with err. It
// returns the result of that reconcile.
func failed(t *testing.T, s scenario, request string, err error) (*recording, ctrl.Result, error) {
	t.Helper()
	r := newRecording(t, s)
	r.fail = func(name string) error {
		if name != request {
			return nil
		}
		return err
	}
	for range mostReconciles {
		r.sync()
		if result, ended := r.reconcile(); r.requests[request] > 0 {
			return r, result, ended
		}
	}
	t.Fatalf("%s was not sent", request)
	return nil, ctrl.Result{}, nil
}

// reaches reports whether further reconciles reach that state.
func (r *recording) reaches(state string) bool {
	r.t.Helper()
	for range mostReconciles {
		if r.state() == state {
			return true
		}
		r.sync()
		_, _ = r.reconcile() // the state decides
	}
	return false
}

// TestFailedRequestsAreReported tests that each failure is reported with the message recorded in
// testdata/failures.txt, and that the next reconciles reach the same state.
func TestFailedRequestsAreReported(t *testing.T) {
	boom := errors.New("boom")
	reports, all := map[string]bool{}, scenarios()
	reads := map[string]bool{} // that failed already: each scenario has them
	for _, name := range slices.Sorted(maps.Keys(all)) {
		requests, want := requestsOf(t, all[name])
		for _, request := range requests {
			if reads[request] {
				continue
			}
			reads[request] = strings.HasPrefix(request, "cached ")
			r, _, err := failed(t, all[name], request, boom)
			if !errors.Is(err, boom) {
				t.Errorf("%s: %s failed, and the reconcile ended with %v", name, request, err)
			}
			report := fmt.Sprintf("%s: %v", strings.TrimSuffix(request, " (2)"), err)
			ready := reporting.FindCondition(r.status().Conditions, v1beta1.ConditionReady)
			if strings.Contains(ready.Message, boom.Error()) {
				report += fmt.Sprintf("\n    Ready %s %s: %s", ready.Status, ready.Reason, ready.Message)
			}
			reports[report] = true
			if !r.reaches(want) {
				t.Errorf("%s: after %s failed once, the end is\n%s\nwant\n%s", name, request, r.state(), want)
			}
		}
	}
	golden.Assert(t, strings.Join(slices.Sorted(maps.Keys(reports)), "\n")+"\n", "failures.txt")
}

// TestRefusedWritesAreNoFailures tests that a Conflict and a denial by the fence are no
// failures. The Tenant is reconciled again soon, and no event or condition reports them.
func TestRefusedWritesAreNoFailures(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("x"), "x", errors.New("changed"))
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, want := requestsOf(t, s)
			for _, request := range requests {
				if strings.HasPrefix(request, "cached ") || strings.HasPrefix(request, "live ") {
					continue
				}
				for _, refusal := range []error{conflict, denied()} {
					r, result, err := failed(t, s, request, refusal)
					if err != nil || result != (ctrl.Result{RequeueAfter: reconciler.RetryAfterConflict}) {
						t.Errorf("%s was refused with %q, and the reconcile ended with %v, %v", request, refusal, result, err)
					}
					// A second Conflict in a row is reported. A foreign namespace does not delay the report
					// of a failure that has another cause.
					inRow := strings.HasSuffix(request, " (2)") && apierrors.IsConflict(refusal)
					if strings.Contains(r.last, v1beta1.EventFailed) && !inRow && request != "patch as leasehold Namespace a-f" {
						t.Errorf("%s was refused with %q, and is a failure:\n%s", request, refusal, r.last)
					}
					if !r.reaches(want) {
						t.Errorf("after %s was refused once, the end is\n%s\nwant\n%s", request, r.state(), want)
					}
				}
			}
		})
	}
}

// TestObjectsDeletedDuringReconcile tests that an object deleted during a reconcile is a failure
// only if the Tenant requires it.
func TestObjectsDeletedDuringReconcile(t *testing.T) {
	needed := []string{
		"Retain is asked for: patch as leasehold Namespace a-dev",
		"another role, not held: patch as leasehold RoleBinding a-dev/leasehold:tenant-admin",
		"handed over: patch as leasehold Namespace a-dev",
	}
	var failures []string
	all := scenarios()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		requests, _ := requestsOf(t, all[name])
		for _, request := range requests {
			if !strings.HasPrefix(request, "patch ") && !strings.HasPrefix(request, "delete ") {
				continue
			}
			_, _, err := failed(t, all[name], request, apierrors.NewNotFound(corev1.Resource("x"), "x"))
			if err != nil {
				failures = append(failures, name+": "+request)
			}
		}
	}
	if diff := cmp.Diff(needed, failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

// TestStaleCache tests that a cache that is updated only before every second reconcile
// changes neither the final state nor the events.
func TestStaleCache(t *testing.T) {
	for name, s := range scenarios() {
		prompt, late := newRecording(t, s), newRecording(t, s)
		prompt.settle()
		for range mostReconciles {
			late.sync()
			for range 2 {
				_, _ = late.reconcile() // the state decides
			}
		}
		if late.state() != prompt.state() {
			t.Errorf("%s: the end is\n%s\nwant\n%s", name, late.state(), prompt.state())
		}
		if diff := cmp.Diff(prompt.events(), late.events()); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", name, diff)
		}
	}
}

// A reconcile that is refused reports its earlier writes, since the next one does not
// repeat them.
func TestRefusedReconcileReportsEarlierWrites(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("x"), "x", errors.New("changed"))
	for _, tc := range []struct{ scenario, refused, reported string }{
		{"created", "apply as leasehold Namespace a-prod", `NamespaceCreated Create "created namespace a-dev"`},
		{"deleted", "delete Namespace a-dev", `NamespaceDeleted Delete "deleting namespace a-old `},
	} {
		if r, _, _ := failed(t, scenarios()[tc.scenario], tc.refused, conflict); strings.Count(r.last, tc.reported) != 1 {
			t.Errorf("%s: %s was refused, want the event %s once in\n%s", tc.scenario, tc.refused, tc.reported, r.last)
		}
	}
}
