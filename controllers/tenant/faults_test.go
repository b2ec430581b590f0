// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/failure"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// again is the result of a reconcile that met a Conflict.
var again = ctrl.Result{RequeueAfter: reconciler.RetryAfterConflict}

// requestsOf returns the requests of a scenario's reconciles, and the world at their end. It omits
// the third and later requests of one name, which a reconciled Tenant repeats.
func requestsOf(t *testing.T, s scenario) (requests []string, w *world) {
	t.Helper()
	w = s.world(t)
	w.settle()
	for request := range w.requests {
		if !strings.HasSuffix(request, ")") || strings.HasSuffix(request, " (2)") {
			requests = append(requests, request)
		}
	}
	slices.Sort(requests)
	return requests, w
}

// failed reconciles until the request of that name is sent, and fails it with err. It
// returns the result of that reconcile.
func failed(t *testing.T, s scenario, request string, err error) (*world, ctrl.Result, error) {
	t.Helper()
	w := s.world(t)
	deny := w.deny
	w.deny = func(q reconcilertest.Request) error {
		if q.Name == request {
			return err
		}
		if deny == nil {
			return nil
		}
		return deny(q)
	}
	for range mostReconciles {
		if result, ended := w.round(); w.requests[request] > 0 {
			return w, result, ended
		}
	}
	t.Fatalf("%s was not sent", request)
	return nil, ctrl.Result{}, nil
}

// reaches reports whether further reconciles reach that state.
func (w *world) reaches(state string) bool {
	w.T.Helper()
	for range mostReconciles {
		if w.state() == state {
			return true
		}
		_, _ = w.round() // the state decides
	}
	return false
}

// TestFailedRequestsAreReported tests that each failure is reported with the message recorded in
// testdata/failures.txt, and that the next reconciles reach the same state. What was left undone is no drift.
func TestFailedRequestsAreReported(t *testing.T) {
	boom := errors.New("boom")
	reports, all := map[string]bool{}, scenarios()
	reads := map[string]bool{} // that failed already: each scenario has them
	for _, name := range slices.Sorted(maps.Keys(all)) {
		requests, whole := requestsOf(t, all[name])
		want := whole.state()
		for _, request := range requests {
			if reads[request] {
				continue
			}
			reads[request] = strings.HasPrefix(request, "cached ")
			w, _, err := failed(t, all[name], request, boom)
			if !errors.Is(err, boom) {
				t.Errorf("%s: %s failed, the reconcile ended with %v", name, request, err)
			}
			report := fmt.Sprintf("%s: %v", strings.TrimSuffix(request, " (2)"), err)
			if ready := w.ready(); strings.Contains(ready.Message, boom.Error()) {
				report += fmt.Sprintf("\n    Ready %s %s: %s", ready.Status, ready.Reason, ready.Message)
			}
			reports[report] = true
			if !w.reaches(want) {
				t.Errorf("%s: after %s failed once, the end is\n%s\nwant\n%s", name, request, w.state(), want)
			}
			if corrected := w.corrected(); corrected != "" && whole.corrected() == "" {
				t.Errorf("%s: after %s failed once, the Tenant reports a drift: %s", name, request, corrected)
			}
		}
	}
	golden.Assert(t, strings.Join(slices.Sorted(maps.Keys(reports)), "\n")+"\n", "failures.txt")
}

// TestRefusedWritesAreNoFailures tests that a Conflict and a denial by the fence are no failures. The
// Tenant is reconciled again, and no event or condition reports them. TestRemovedAdminsLoseTheirRights has
// Conflicts at the admins' binding. A former leader, all of whose writes the fence denies, reports nothing.
func TestRefusedWritesAreNoFailures(t *testing.T) {
	isRead := func(request string) bool {
		return strings.HasPrefix(request, "cached ") || strings.HasPrefix(request, "live ")
	}
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, whole := requestsOf(t, s)
			want := whole.state()
			for _, request := range slices.DeleteFunc(requests, isRead) {
				for _, refusal := range []error{changed(), denied()} {
					if apierrors.IsConflict(refusal) && strings.Contains(request, " RoleBinding ") {
						continue
					}
					w, result, err := failed(t, s, request, refusal)
					if apierrors.IsConflict(refusal) && (err != nil || result != again) ||
						failure.Of(refusal) == failure.Fenced && failure.Of(err) != failure.Fenced {
						t.Errorf("%s was refused with %q, the reconcile ended with %v, %v", request, refusal, result, err)
					}
					if strings.Contains(w.last, "Failed ReconcileFailed") || strings.Contains(w.last, "Failed AdmissionDenied") {
						t.Errorf("%s was refused with %q, and is a failure:\n%s", request, refusal, w.last)
					}
					if !w.reaches(want) {
						t.Errorf("after %s was refused once, the end is\n%s\nwant\n%s", request, w.state(), want)
					}
				}
			}
			w, writes := s.world(t), 0
			w.deny = func(q reconcilertest.Request) error {
				if isRead(q.Name) {
					return nil
				}
				writes++
				return denied()
			}
			w.sync()
			_, err := w.reconcile()
			if (failure.Of(err) == failure.Fenced) != (writes > 0) || strings.Contains(w.last, "event ") {
				t.Errorf("%d writes were denied, and the reconcile ended with %v:\n%s", writes, err, w.last)
			}
		})
	}
}

// A reconcile that has used up its time reports that, whichever request hangs. One that is canceled, because the
// operator stops, reports nothing.
func TestHangingRequests(t *testing.T) {
	for _, hangs := range []string{"patch as leasehold Tenant a", "get Namespace a-old",
		"apply as leasehold Namespace a-dev", "apply as leasehold ClusterRole "} {
		for _, stops := range []bool{false, true} {
			w := newWorld(t, tenant("a", fresh, owning("a-old")))
			_ = t.Context().Done() // a channel that was made in the bubble could not end
			want := context.DeadlineExceeded
			if stops {
				want = context.Canceled
			}
			synctest.Test(t, func(t *testing.T) {
				err := w.Ended(t.Context(), w.r, ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}}, hangs, stops)
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", hangs, err, want)
				}
			})
			if got := w.ready(); (got.Reason == v1beta1.ReasonReconcileFailed) == stops {
				t.Errorf("%s, the operator stops %t: Ready %s %s: %s", hangs, stops, got.Status, got.Reason, got.Message)
			}
		}
	}
}

// The cache can still have a Tenant whose finalizer the operator has removed. Its end is no failure, also the second
// time, and changes nothing else.
func TestLateCacheOfAReleasedTenant(t *testing.T) {
	w := newWorld(t, tenant("a", deleted))
	w.late = true
	_ = t.Context().Done() // a channel that was made in the bubble could not end
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			result, err := w.reconcile()
			if lines := strings.Split(w.last, "\n"); err != nil || result != (ctrl.Result{}) || len(lines) != 1 ||
				!strings.Contains(lines[0], "patch as leasehold Tenant a") || find[v1beta1.Tenant](w, "", "a") != nil {
				t.Errorf("%v, %v, after\n%s", result, err, w.last)
			}
		}
	})
}

// An object that is deleted during the reconcile which deletes or releases it is no failure.
func TestObjectsDeletedDuringReconcile(t *testing.T) {
	for _, tc := range []struct{ scenario, request string }{
		{"deleted", "delete Namespace a-dev"},
		{"deleted", "delete ClusterRole leasehold:tenant-reader:a"},
		{"deleted", "patch as leasehold Tenant a"},
		{"deleted under Retain", "patch as leasehold Namespace a-dev"},
		{"deleted under Retain", "patch as leasehold RoleBinding a-old/leasehold:tenant-admin"},
	} {
		gone := apierrors.NewNotFound(corev1.Resource("x"), "x")
		if _, _, err := failed(t, scenarios()[tc.scenario], tc.request, gone); err != nil {
			t.Errorf("%s: the object of %s did not exist: %v", tc.scenario, tc.request, err)
		}
	}
}

// A reconcile that is refused reports its earlier writes, since the next one does not
// repeat them.
func TestRefusedReconcileReportsEarlierWrites(t *testing.T) {
	for _, tc := range []struct{ scenario, refused, reported string }{
		{"created", "apply as leasehold Namespace a-prod", `: created namespace a-dev`},
		{"deleted", "delete Namespace a-dev", `: deleting namespace a-old `},
	} {
		if w, _, _ := failed(t, scenarios()[tc.scenario], tc.refused, changed()); strings.Count(w.last, tc.reported) != 1 {
			t.Errorf("%s: %s was refused, want the event %s once in\n%s", tc.scenario, tc.refused, tc.reported, w.last)
		}
	}
}

// A namespace that is given away after it was observed is neither deleted nor released.
func TestNamespaceGivenAwayMeanwhileIsKept(t *testing.T) {
	for name, with := range map[string]func(*v1beta1.Tenant){"Delete": deleted, "Retain": func(x *v1beta1.Tenant) {
		deleted(x)
		retaining(x)
	}} {
		w := newWorld(t, provision(nil, with)...)
		w.deny = func(q reconcilertest.Request) error {
			if q.Name == "cached get ClusterRole admin" { // the last read
				w.edit("a-dev", ownedBy(sharing))
			}
			return nil
		}
		if result, err := w.reconcile(); result != again || err != nil {
			t.Errorf("%s: %v, %v, want another reconcile", name, result, err)
		}
		ns := find[corev1.Namespace](w, "", "a-dev")
		if ns == nil || annotatedUID(ns) != sharing.UID {
			t.Errorf("%s: the namespace of another Tenant is %+v", name, ns)
		}
	}
}
