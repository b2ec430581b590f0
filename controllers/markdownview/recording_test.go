// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

var request = ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "book"}}

// recording is a Reconciler on a fake API server, with a cache as the manager has it. It records
// requests, events and results as lines.
type recording struct {
	*Reconciler
	reconcilertest.Recording
	stored client.WithWatch // the API server, without a record
	// errs are the errors of applies, by the child's kind, and of writes of the "status".
	errs map[string]error
}

func newRecording(t testing.TB, objects ...client.Object) *recording {
	t.Helper()
	r := &recording{errs: map[string]error{},
		stored: reconcilertest.NewClientBuilder().WithObjects(objects...).
			WithStatusSubresource(&v1beta1.MarkdownView{}).Build()}
	r.Recording = reconcilertest.Recording{T: t, OnRequest: r.onRequest}
	mgr := &fakeManager{
		cached: r.Intercept(interceptor.NewClient(r.stored, interceptor.Funcs{Get: r.getCached}), true),
		live:   r.Intercept(r.stored, false),
	}
	r.Reconciler = New(mgr, Options{DefaultViewerImage: defaultImage})
	r.Recorder, r.Clock = &r.Recording, testingclock.NewFakePassiveClock(epoch)
	r.available.Reset() // all Reconcilers of a process have one gauge
	return r
}

// fakeManager implements the part of a Manager that New uses.
type fakeManager struct {
	ctrl.Manager

	cached, live client.Client
}

func (m *fakeManager) GetClient() client.Client    { return m.cached }
func (m *fakeManager) GetAPIReader() client.Reader { return m.live }
func (m *fakeManager) GetEventRecorder(string) recorder.EventRecorder {
	return events.NewFakeRecorder(0)
}

// getCached returns what the manager's cache holds of an object.
func (r *recording) getCached(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
	opts ...client.GetOption) error {
	if err := c.Get(ctx, key, into, opts...); err != nil {
		return err
	}
	kept := inCache(r.T, into)
	if kept == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(kept).Elem())
	return nil
}

// inCache returns what the manager's cache holds of an object; nil if it does not select the
// object. It applies the transform twice, as a reflector does with streamed objects.
func inCache(t testing.TB, o client.Object) client.Object {
	t.Helper()
	for kind, by := range CacheByObject() {
		if reflect.TypeOf(kind) != reflect.TypeOf(o) {
			continue
		}
		if by.Label != nil && !by.Label.Matches(labels.Set(o.GetLabels())) {
			return nil
		}
		var out any = o.DeepCopyObject()
		for range 2 {
			var err error
			if out, err = by.Transform(out); err != nil {
				t.Fatal(err)
			}
		}
		return out.(client.Object)
	}
	t.Fatalf("the cache has no transform for %T", o)
	return nil
}

// onRequest records writes. For an apply it records whether it is an update, and of which version.
func (r *recording) onRequest(q reconcilertest.Request) error {
	switch q.Verb {
	case "get":
		if !q.Cached {
			return r.errs["live get"]
		}
	case "apply":
		o := q.Object.(*metav1.PartialObjectMetadata)
		r.Line("  apply %s %s at %q %q", o.Kind, o.Name, o.UID, o.ResourceVersion)
		return r.errs[o.Kind]
	case "patch", "delete":
		r.Line("  %s %T %s: %s", q.Verb, q.Object, q.Key.Name, q.Body)
	case "patch status":
		return r.errs["status"]
	}
	return nil
}

// run reconciles after each of the steps, one minute apart, and returns the record.
func (r *recording) run(steps ...func(*recording)) string {
	now := testingclock.NewFakePassiveClock(epoch)
	r.Clock = now
	r.Run(r.Reconciler, request, now, time.Minute, len(steps), func(i int) { steps[i](r) })
	r.Series(r.available)
	return r.Since(epoch)
}

// has reports whether there was a request with this verb.
func (r *recording) has(verb string) bool {
	return slices.ContainsFunc(r.Lines, func(line string) bool { return strings.HasPrefix(line, "  "+verb+" ") })
}

// TestReconcileGolden compares the decisions and reports of each scenario with testdata/reconcile.txt.
func TestReconcileGolden(t *testing.T) {
	reconcilertest.Golden(t, scenarios(), func(s scenario) string {
		return newRecording(t, s.objects...).run(s.steps...)
	})
}

// The table has the kstatus result that deployment tools derive from each reason of Ready, in the
// statuses of all scenarios. Failed needs a user; the operator retries what is InProgress.
func TestKstatus(t *testing.T) {
	var reported []client.Object
	for _, s := range scenarios() {
		r := newRecording(t, s.objects...)
		r.run(s.steps...)
		reported = append(reported, r.Reported...)
	}
	reconcilertest.CheckKstatus(t, reported, map[string]status.Status{
		" ":                         status.InProgressStatus, // paused from the start
		"False ChildConflict":       status.FailedStatus,
		"False RBACForbidden":       status.FailedStatus,
		"False InvalidSpec":         status.FailedStatus,
		"False RolloutStalled":      status.FailedStatus,
		"False Progressing":         status.InProgressStatus,
		"False NoReplicasAvailable": status.InProgressStatus,
		"False AdmissionDenied":     status.InProgressStatus,
		"False QuotaExceeded":       status.InProgressStatus,
		"False ReconcileFailed":     status.InProgressStatus,
		"True Reconciled":           status.CurrentStatus,
	})
}
