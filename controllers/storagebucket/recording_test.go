package storagebucket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/storagebucket/s3"
)

// scenario is a bucket, its service, and the changes before the end of some reconciles, one each
// period.
type scenario struct {
	with func(*v1beta1.StorageBucket)
	// secret changes the Secret before the first reconcile; nil keeps it.
	secret  func(*corev1.Secret)
	objects []client.Object
	service fakeService
	// forbidden is true if the rules allow no address of the service.
	forbidden bool
	// removed deletes the StorageBucket; ending is how long its namespace has been terminating.
	removed    bool
	ending     time.Duration
	reconciles int
}

// recording is a fixture that records requests, events and results as lines.
type recording struct {
	*fixture

	t        *testing.T
	began    time.Time
	lines    []string
	reported []client.Object // with each status that was written
}

func (r *recording) line(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// Eventf implements events.EventRecorder.
func (r *recording) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	about := func(o runtime.Object) string {
		if o == nil {
			return "nothing"
		}
		c := o.(client.Object)
		return fmt.Sprintf("%T %s/%s", o, c.GetNamespace(), c.GetName())
	}
	r.line("event %s %s (%s) on %s, related to %s: %s", kind, reason, action, about(regarding), about(related),
		fmt.Sprintf(note, args...))
}

func newRecording(t *testing.T, s scenario) *recording {
	t.Helper()
	r := &recording{t: t}
	bucket := s.service
	r.fixture = newManagedFixture(t, "", func(w http.ResponseWriter, request *http.Request) {
		answer := httptest.NewRecorder()
		bucket.ServeHTTP(answer, request)
		r.line("  S3 %s: %d", nameOf(request), answer.Code)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}, func(context.Context, client.Client) {})
	for _, o := range s.objects {
		if err := r.stored.Create(t.Context(), o.DeepCopyObject().(client.Object)); err != nil {
			t.Fatal(err)
		}
	}
	if s.secret != nil {
		secret := credentialsForTest()
		s.secret(secret)
		if err := r.stored.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	r.prepare(t, func(b *v1beta1.StorageBucket) {
		b.Spec.Probe.FailureThreshold = 3
		if s.with != nil {
			s.with(b)
		}
	}, s.removed)
	if s.ending > 0 {
		r.endNamespace(t, 0)
	}
	if s.forbidden {
		r.Rules = func(context.Context) (s3.Rules, error) { return s3.Rules{}, nil }
	}
	r.RemovalGrace = 2 * time.Minute
	r.Client, r.Live, r.Recorder = interceptor.NewClient(r.stored.(client.WithWatch), r.funcs("cached")),
		interceptor.NewClient(r.stored.(client.WithWatch), r.funcs("live")), r
	return r
}

// funcs returns interceptors that record live reads and all writes.
func (r *recording) funcs(which string) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
			opts ...client.GetOption) error {
			if which != "cached" {
				r.line("  %s get %T %s", which, into, key)
			}
			return c.Get(ctx, key, into, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			body, _ := patch.Data(o)
			r.line("  patch %s", body)
			return c.Patch(ctx, o, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption) error {
			body, _ := patch.Data(o)
			r.line("  patch %s: %s", sub, statusPatch(body))
			r.reported = append(r.reported, o.DeepCopyObject().(client.Object))
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}
}

// run reconciles n times.
func (r *recording) run(n int) {
	now := r.Clock.(*testingclock.FakePassiveClock)
	r.Clock, r.began = advancingClock{now}, now.Now()
	for i := range n {
		r.line("reconcile %d", i+1)
		result, err := r.Reconcile(r.t.Context(),
			ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "b"}})
		r.line("  again after %s, error %v", result.RequeueAfter, err)
		now.SetTime(now.Now().Add(67 * time.Second))
	}
	r.lines = append(r.lines, r.series()...)
}

// series returns the metrics, without the counters of reasons that never occurred and without
// histogram buckets.
func (r *recording) series() []string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.metrics.probes, r.metrics.duration, r.metrics.up, r.metrics.retained)
	return slices.DeleteFunc(exposedLines(r.t, registry), func(line string) bool {
		never := strings.Contains(line, "_retained_") && strings.HasSuffix(line, " 0")
		return never || strings.HasPrefix(line, "#") || strings.Contains(line, "_bucket{")
	})
}

// exposedLines returns the lines that a registry exposes.
func exposedLines(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	var text bytes.Buffer
	for _, family := range families {
		_, formatErr := expfmt.MetricFamilyToText(&text, family)
		err = errors.Join(err, formatErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(text.String()), "\n")
}

// timestamp matches a time in a patch or a message.
var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// text returns the recorded lines, with times relative to the first reconcile.
func (r *recording) text() string {
	return timestamp.ReplaceAllStringFunc(strings.Join(r.lines, "\n"), func(text string) string {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			r.t.Fatal(err)
		}
		return at.Sub(r.began).String()
	})
}

// statusPatch returns the written part of a status patch, without its preconditions.
func statusPatch(body []byte) string {
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if json.Unmarshal(body, &operations) != nil {
		return string(body)
	}
	var list []string
	for _, o := range operations {
		if o.Op == "test" {
			o.Value = nil
		}
		list = append(list, strings.TrimSpace(o.Op+" "+o.Path+" "+string(o.Value)))
	}
	return strings.Join(list, ", ")
}

// TestReconcileGolden compares the requests to the endpoint, the live reads, the writes and the
// reports of each scenario with a golden file.
func TestReconcileGolden(t *testing.T) {
	var got strings.Builder
	all := scenarios()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := newRecording(t, all[name])
		r.run(max(all[name].reconciles, 2))
		fmt.Fprintf(&got, "== %s\n%s\n\n", name, r.text())
	}
	golden.Assert(t, got.String(), "reconcile.txt")
}
