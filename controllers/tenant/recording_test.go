package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1beta1"
)

// mostReconciles exceeds the reconciles of every scenario.
const mostReconciles = 12

// recording is a world that records the requests and events of its reconciles as lines. A
// test can fail each request.
type recording struct {
	*world

	requests map[string]int // how often each was sent
	lines    []string
	last     string          // what the last reconcile did
	reported []client.Object // with each status that was sent
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
	if s.deny != nil {
		r.deny = s.deny()
	}
	if s.options != nil {
		s.options(&r.r.Options)
	}
	r.r.Client = interceptor.NewClient(r.r.Client.(client.WithWatch), r.funcs("cached "))
	r.r.Live = interceptor.NewClient(r.live, r.funcs("live "))
	r.r.Recorder = r
	return r
}

// request records one request, and returns the error of fail. Reads from the cache are not
// recorded, since they cause no request.
func (r *recording) request(body any, format string, args ...any) error {
	name := fmt.Sprintf(format, args...)
	r.requests[name]++
	if n := r.requests[name]; n > 1 {
		r.requests[name+fmt.Sprintf(" (%d)", n)]++
		name += fmt.Sprintf(" (%d)", n)
	}
	if line := fmt.Sprintf(format, args...); !strings.HasPrefix(line, "cached ") {
		r.lines = append(r.lines, strings.TrimSpace(line+" "+r.text(body)))
	}
	if r.fail == nil {
		return nil
	}
	return r.fail(name)
}

func (r *recording) text(body any) string {
	r.t.Helper()
	switch body := body.(type) {
	case nil:
		return ""
	case []byte:
		return string(body)
	}
	data, err := json.Marshal(body)
	r.must(err)
	return strings.ReplaceAll(string(data), controlledByA, "{the Tenant}")
}

// controlledByA is the owner reference of a child of the Tenant a.
const controlledByA = `{"apiVersion":"leasehold.dev/v1beta1","kind":"Tenant","name":"a","uid":"uid-a","controller":true,"blockOwnerDeletion":true}`

// Eventf implements events.EventRecorder.
func (r *recording) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	line := fmt.Sprintf("event %s %s %s %q of %s", kind, reason, action, fmt.Sprintf(note, args...),
		r.name(regarding.(client.Object)))
	if related != nil {
		line += " about " + r.text(related)
	}
	r.lines = append(r.lines, line)
}

// name returns the kind, namespace and name of an object.
func (r *recording) name(o client.Object) string {
	return kindOf(o) + " " + strings.TrimPrefix(client.ObjectKeyFromObject(o).String(), "/")
}

// kindOf returns the Go type without its package.
func kindOf(o any) string {
	text := fmt.Sprintf("%T", o)
	return text[strings.LastIndex(text, ".")+1:]
}

// funcs returns interceptors that record and fail requests. The prefix reads precedes reads.
func (r *recording) funcs(reads string) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if err := r.request(nil, "%sget %s %s", reads, kindOf(o), strings.TrimPrefix(key.String(), "/")); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(opts)
			what := kindOf(list)
			if asked.FieldSelector != nil {
				what += " " + asked.FieldSelector.String()
			}
			if asked.Limit > 0 {
				what += fmt.Sprintf(" limit %d", asked.Limit)
			}
			if err := r.request(nil, "%slist %s", reads, what); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			asked := (&client.ApplyOptions{}).ApplyOptions(opts)
			var about struct {
				Kind     string
				Metadata metav1.ObjectMeta
			}
			data, err := json.Marshal(config)
			r.must(err)
			r.must(json.Unmarshal(data, &about))
			name := strings.TrimPrefix(about.Metadata.Namespace+"/"+about.Metadata.Name, "/")
			if err := r.request(config, "apply as %s %s %s", asked.FieldManager, about.Kind, name); err != nil {
				return err
			}
			return c.Apply(ctx, config, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			asked := (&client.CreateOptions{}).ApplyOptions(opts)
			if err := r.request(o, "create as %s %s dry run %s", asked.FieldManager, r.name(o), asked.DryRun); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			data, err := p.Data(o)
			r.must(err)
			asked := (&client.PatchOptions{}).ApplyOptions(opts)
			if err := r.request(data, "patch as %s %s", asked.FieldManager, r.name(o)); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			asked := (&client.DeleteOptions{}).ApplyOptions(opts)
			if err := r.request(asked.AsDeleteOptions(), "delete %s", r.name(o)); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if err := r.request(nil, "%s of %s %s", path.Base(string(p.Type())), sub, r.name(o)); err != nil {
				return err
			}
			r.lines = append(r.lines, statusLines(o.(*v1beta1.Tenant).Status)...)
			r.reported = append(r.reported, o.DeepCopyObject().(client.Object))
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
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
	from := len(r.lines)
	result, err := r.r.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "a"}})
	if result != (ctrl.Result{}) {
		r.lines = append(r.lines, fmt.Sprintf("again after %s", result.RequeueAfter))
	}
	if err != nil {
		r.lines = append(r.lines, "error: "+err.Error())
	}
	did := strings.Join(r.lines[from:], "\n")
	if r.lines = append(r.lines, ""); did == r.last {
		r.lines = append(r.lines[:from], "nothing else", "")
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
			fmt.Fprintf(&text, "%s %s\n", r.name(o), r.text(o))
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
	return slices.DeleteFunc(slices.Clone(r.lines), func(line string) bool { return !strings.HasPrefix(line, "event ") })
}
