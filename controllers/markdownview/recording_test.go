package markdownview

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"gotest.tools/v3/golden"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1beta1"
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

	t        *testing.T
	lines    []string
	reported []client.Object // with each status that was written
}

func (r *recording) line(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// Eventf implements events.EventRecorder.
func (r *recording) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	about := "nothing"
	if related != nil {
		text, err := json.Marshal(related)
		if err != nil {
			r.t.Fatal(err)
		}
		about = string(text)
	}
	r.line("event %s %s (%s) on %T, related to %s: %s", kind, reason, action, regarding, about, fmt.Sprintf(note, args...))
}

func newRecording(t *testing.T, objects ...client.Object) *recording {
	t.Helper()
	r := &recording{t: t, fixture: newFixture(t, objects...)}
	r.Client, r.Live, r.Recorder = interceptor.NewClient(r.client, r.funcs()),
		interceptor.NewClient(r.client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
				opts ...client.GetOption) error {
				r.line("  live get %T %s", into, key)
				return getAsRecorded(ctx, c, key, into, opts...)
			},
		}), r
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

// funcs returns interceptors that record the writes. For an apply they record whether it is an
// update, and of which version.
func (r *recording) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Get: getAsRecorded,
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			text, err := json.Marshal(o)
			var head struct {
				Kind     string
				Metadata struct{ Name, ResourceVersion, UID string }
			}
			if err = errors.Join(err, json.Unmarshal(text, &head)); err != nil {
				r.t.Fatal(err)
			}
			r.line("  apply %s %s at %q %q", head.Kind, head.Metadata.Name, head.Metadata.UID, head.Metadata.ResourceVersion)
			return c.Apply(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			body, _ := patch.Data(o)
			r.line("  patch %T %s: %s", o, o.GetName(), body)
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

// run reconciles after each of the steps, one minute apart.
func (r *recording) run(steps ...func(*recording)) {
	now := testingclock.NewFakePassiveClock(epoch)
	r.Clock = now
	for i, step := range steps {
		r.line("reconcile %d", i+1)
		step(r)
		result, err := r.Reconcile(r.t.Context(), request)
		r.line("  again after %s, error %v", result.RequeueAfter, err)
		now.SetTime(now.Now().Add(time.Minute))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.available)
	families, err := registry.Gather()
	var text bytes.Buffer
	for _, family := range families {
		_, formatErr := expfmt.MetricFamilyToText(&text, family)
		err = errors.Join(err, formatErr)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			r.line("%s", strings.TrimSpace(line))
		}
	}
}

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// text returns the recorded lines, with times relative to the first reconcile.
func (r *recording) text() string {
	return timestamp.ReplaceAllStringFunc(strings.Join(r.lines, "\n"), func(text string) string {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			r.t.Fatal(err)
		}
		return at.Sub(epoch).String()
	})
}

// TestReconcileGolden compares the live reads, writes and reports of each scenario with
// testdata/reconcile.txt.
func TestReconcileGolden(t *testing.T) {
	var got strings.Builder
	all := scenarios()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := newRecording(t, all[name].objects...)
		r.run(all[name].steps...)
		fmt.Fprintf(&got, "== %s\n%s\n\n", name, r.text())
	}
	golden.Assert(t, got.String(), "reconcile.txt")
}
