// SPDX-License-Identifier: Apache-2.0

package reconcilertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"gotest.tools/v3/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Request is a request to the API server, or a read from a cache.
type Request struct {
	Cached bool             // the client reads from a cache
	Verb   string           // get, list, apply, create, patch, delete or "patch status"
	Name   string           // without the body, as in "patch as leasehold Namespace a"
	Object client.Object    // nil of a list; the metadata of an apply
	Key    client.ObjectKey // of the object
	Body   []byte           // of a write
}

// Recording records what a controller does as lines.
type Recording struct {
	T        testing.TB
	Lines    []string
	Reported []client.Object // with each status that was sent
	// OnRequest is called before each request. The request fails with its error.
	OnRequest func(Request) error
	// Hangs is the beginning of the names of requests to the API server that get no answer.
	Hangs string

	conditions map[string]string // the lines of the last report
}

// Line adds a line.
func (r *Recording) Line(format string, args ...any) {
	r.Lines = append(r.Lines, fmt.Sprintf(format, args...))
}

// JSON returns the JSON of a value.
func (r *Recording) JSON(value any) []byte {
	r.T.Helper()
	text, err := json.Marshal(value)
	r.must(err)
	return text
}

func (r *Recording) must(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// onRequest is called before each request. As with a client of the API server, a request ends with its context.
func (r *Recording) onRequest(ctx context.Context, q Request) error {
	isRead := q.Verb == "get" || q.Verb == "list"
	if r.Hangs != "" && (!q.Cached || !isRead) && strings.HasPrefix(q.Name, r.Hangs) {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if q.Verb == "patch status" {
		r.report(q)
	}
	return r.OnRequest(q)
}

// report adds a status: the version that it replaces, the conditions that changed, and the other fields.
func (r *Recording) report(q Request) {
	r.T.Helper()
	var patch metav1.PartialObjectMetadata
	var typed struct {
		Status struct{ Conditions []metav1.Condition }
	}
	var fields struct{ Status map[string]any }
	text := r.JSON(q.Object)
	r.must(errors.Join(json.Unmarshal(q.Body, &patch), json.Unmarshal(text, &typed), json.Unmarshal(text, &fields)))
	delete(fields.Status, "conditions")
	r.Line("  status of version %q: %s", patch.ResourceVersion, r.JSON(fields.Status))
	before := r.conditions
	r.conditions = map[string]string{}
	for _, c := range typed.Status.Conditions {
		line := fmt.Sprintf("    %s %s %s of generation %d since %s: %s", c.Type, c.Status, c.Reason, c.ObservedGeneration,
			c.LastTransitionTime.UTC().Format(time.RFC3339), c.Message)
		if r.conditions[c.Type] = line; line != before[c.Type] {
			r.Line("%s", line)
		}
	}
	for _, removed := range slices.Sorted(maps.Keys(before)) {
		if _, ok := r.conditions[removed]; !ok {
			r.Line("    %s is removed", removed)
		}
	}
}

// Eventf implements events.EventRecorder.
func (r *Recording) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	about := ""
	switch o := related.(type) {
	case nil:
	case client.Object:
		about = " about " + NameOf(o)
	default:
		about = " about " + string(r.JSON(o))
	}
	r.Line("  event %s %s (%s) of %s%s: %s", kind, reason, action, NameOf(regarding.(client.Object)), about,
		fmt.Sprintf(note, args...))
}

// Ended reconciles while a request hangs, and returns the error. The context ends by the time limit of a reconcile, or
// because the operator stops. It runs in a synctest bubble.
func (r *Recording) Ended(ctx context.Context, c reconcile.Reconciler, request reconcile.Request, hangs string,
	stops bool) error {
	ctx, cancel := context.WithTimeout(ctx, 150*time.Second)
	defer cancel()
	if stops {
		stopped, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		defer context.AfterFunc(stopped, cancel)()
	}
	r.Hangs = hangs
	_, err := c.Reconcile(ctx, request)
	return err
}

// Intercept returns a client that calls OnRequest before each request to c.
func (r *Recording) Intercept(c client.WithWatch, cached bool) client.WithWatch {
	send := func(ctx context.Context, verb, name string, o client.Object, body []byte, do func() error) error {
		q := Request{Cached: cached, Verb: verb, Name: name, Object: o, Key: client.ObjectKeyFromObject(o), Body: body}
		if err := r.onRequest(ctx, q); err != nil {
			return err
		}
		return do()
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			q := Request{Cached: cached, Verb: "get", Name: "get " + KindOf(o) + " " + keyText(key), Object: o, Key: key}
			if err := r.onRequest(ctx, q); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := r.onRequest(ctx, Request{Cached: cached, Verb: "list", Name: listName(list, opts)}); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			body, o := r.JSON(config), &metav1.PartialObjectMetadata{}
			r.must(json.Unmarshal(body, o))
			name := fmt.Sprintf("apply as %s %s %s", (&client.ApplyOptions{}).ApplyOptions(opts).FieldManager, o.Kind,
				keyText(client.ObjectKeyFromObject(o)))
			return send(ctx, "apply", name, o, body, func() error { return c.Apply(ctx, config, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			by := (&client.CreateOptions{}).ApplyOptions(opts)
			name := fmt.Sprintf("create as %s %s dry run %s", by.FieldManager, NameOf(o), by.DryRun)
			return send(ctx, "create", name, o, r.JSON(o), func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			body, err := p.Data(o)
			r.must(err)
			name := "patch as " + (&client.PatchOptions{}).ApplyOptions(opts).FieldManager + " " + NameOf(o)
			return send(ctx, "patch", name, o, body, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			body := r.JSON((&client.DeleteOptions{}).ApplyOptions(opts).AsDeleteOptions())
			return send(ctx, "delete", "delete "+NameOf(o), o, body, func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			body, err := p.Data(o)
			r.must(err)
			name := fmt.Sprintf("%s of %s %s", path.Base(string(p.Type())), sub, NameOf(o))
			return send(ctx, "patch "+sub, name, o, body, func() error {
				r.Reported = append(r.Reported, o.DeepCopyObject().(client.Object))
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			})
		},
	})
}

func listName(list client.ObjectList, opts []client.ListOption) string {
	by, name := (&client.ListOptions{}).ApplyOptions(opts), "list "+KindOf(list)
	if by.FieldSelector != nil {
		name += " " + by.FieldSelector.String()
	}
	if by.Limit > 0 {
		name += fmt.Sprintf(" limit %d", by.Limit)
	}
	return name
}

// KindOf returns the Go type of an object without its package.
func KindOf(o any) string {
	text := fmt.Sprintf("%T", o)
	return text[strings.LastIndex(text, ".")+1:]
}

// NameOf returns the kind, namespace and name of an object.
func NameOf(o client.Object) string { return KindOf(o) + " " + keyText(client.ObjectKeyFromObject(o)) }

func keyText(key client.ObjectKey) string { return strings.TrimPrefix(key.String(), "/") }

// Run reconciles n times and records what each reconcile decided. It calls before at the beginning of each
// reconcile, and adds the pause to the clock at its end.
func (r *Recording) Run(c reconcile.Reconciler, request reconcile.Request, clock *testingclock.FakePassiveClock,
	pause time.Duration, n int, before func(int)) {
	for i := range n {
		r.Line("reconcile %d", i+1)
		from := len(r.Lines)
		before(i)
		result, err := c.Reconcile(r.T.Context(), request)
		if result.RequeueAfter > 0 {
			r.Line("  again after %s", result.RequeueAfter)
		}
		if err != nil {
			r.Line("  error: %v", err)
		}
		if len(r.Lines) == from {
			r.Lines = r.Lines[:from-1]
		}
		clock.SetTime(clock.Now().Add(pause))
	}
}

// Series adds the series of collectors, without their help and types, and without counters of 0.
func (r *Recording) Series(collectors ...prometheus.Collector) {
	r.T.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	for line := range strings.Lines(Exposed(r.T, registry)) {
		line = strings.TrimSpace(line)
		unused := strings.Contains(line, "_total") && strings.HasSuffix(line, " 0")
		if !strings.HasPrefix(line, "#") && !unused {
			r.Lines = append(r.Lines, line)
		}
	}
}

// Exposed returns what a registry exposes.
func Exposed(t testing.TB, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// Since returns the lines, with each time in them as the duration since began.
func (r *Recording) Since(began time.Time) string {
	r.T.Helper()
	return timestamp.ReplaceAllStringFunc(strings.Join(r.Lines, "\n"), func(text string) string {
		at, err := time.Parse(time.RFC3339, text)
		r.must(err)
		return at.Sub(began).String()
	})
}

// Golden compares the records of all scenarios with testdata/reconcile.txt.
func Golden[S any](t *testing.T, scenarios map[string]S, record func(S) string) {
	t.Helper()
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		fmt.Fprintf(&got, "== %s\n%s\n\n", name, record(scenarios[name]))
	}
	golden.Assert(t, got.String(), "reconcile.txt")
}
