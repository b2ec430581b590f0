package markdownview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// TestChildrenGolden compares the rendered children with testdata/children.yaml.
func TestChildrenGolden(t *testing.T) {
	var got strings.Builder
	for _, v := range []*v1beta1.MarkdownView{
		view(),
		view(image(""), replicas(0),
			func(v *v1beta1.MarkdownView) { v.Spec.ViewerArgs = []v1beta1.ViewerArg{"--title", "A"} }),
	} {
		c := render(v, defaultImage)
		for _, child := range []any{c.configMap, c.deployment, c.service} {
			text, err := yaml.Marshal(child)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "---\n%s", text)
		}
	}
	golden.Assert(t, got.String(), "children.yaml")
}

// recording is a fixture that records requests, events and results as lines.
type recording struct {
	*fixture
	reconcilertest.Recording
}

func newRecording(t *testing.T, objects ...client.Object) *recording {
	t.Helper()
	r := &recording{fixture: newFixture(t, objects...)}
	r.Recording = reconcilertest.Recording{T: t, OnRequest: r.onRequest}
	stored := interceptor.NewClient(r.client, interceptor.Funcs{Get: getAsRecorded})
	r.Client, r.Live, r.Recorder = r.Intercept(stored, true), r.Intercept(stored, false), r
	return r
}

// getAsRecorded removes the status from the managed fields of the main resource, as a real API
// server does.
func getAsRecorded(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
	opts ...client.GetOption) error {
	err := c.Get(ctx, key, into, opts...)
	for _, entry := range into.GetManagedFields() {
		var fields map[string]any
		err = errors.Join(err, json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields))
		if entry.Subresource == "" {
			delete(fields, "f:status")
		}
		text, marshalErr := json.Marshal(fields)
		err = errors.Join(err, marshalErr)
		entry.FieldsV1.SetRawString(string(text))
	}
	return err
}

// Eventf implements events.EventRecorder.
func (r *recording) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	about := "nothing"
	if related != nil {
		about = string(r.JSON(related))
	}
	r.Line("event %s %s (%s) on %T, related to %s: %s", kind, reason, action, regarding, about, fmt.Sprintf(note, args...))
}

// onRequest records live reads and writes. For an apply it records whether it is an update, and of
// which version.
func (r *recording) onRequest(q reconcilertest.Request) error {
	switch q.Verb {
	case "get":
		if !q.Cached {
			r.Line("  live get %T %s", q.Object, q.Key)
		}
	case "apply":
		o := q.Object.(*metav1.PartialObjectMetadata)
		r.Line("  apply %s %s at %q %q", o.Kind, o.Name, o.UID, o.ResourceVersion)
	case "patch":
		r.Line("  patch %T %s: %s", q.Object, q.Key.Name, q.Body)
	case "patch status":
		r.StatusPatch(q.Body)
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

// TestReconcileGolden compares the live reads, writes and reports of each scenario with
// testdata/reconcile.txt.
func TestReconcileGolden(t *testing.T) {
	reconcilertest.Golden(t, scenarios(), func(s scenario) string {
		return newRecording(t, s.objects...).run(s.steps...)
	})
}
