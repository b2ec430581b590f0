package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/leasehold"
)

// follow watches the Lease, the objects of the operator's kinds and their events until stop, and
// prints changes.
func (e *environment) follow(ctx context.Context) error {
	scheme := leasehold.Scheme()
	var err error
	if e.client, err = client.New(e.plane.Config(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	watched, err := cache.New(e.plane.Config(), cache.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("creating the cache: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := watched.Start(ctx); err != nil {
			e.out.printf("failed", "watching the cluster: %v", err)
		}
	})
	e.stopFollowing = func() { cancel(); running.Wait() }
	changes := &changes{out: e.out, system: e.installation.Shipped().Namespace, printed: map[string]string{}}
	return errors.Join(
		onChange(ctx, watched, changes.lease),
		onChange(ctx, watched, func(t *v1beta1.Tenant, gone bool) { changes.object("tenant", t, t.Status.Conditions, gone) }),
		onChange(ctx, watched, func(b *v1beta1.StorageBucket,
			gone bool) {
			changes.object("bucket", b, b.Status.Conditions, gone)
		}),
		onChange(ctx, watched, func(v *v1beta1.MarkdownView,
			gone bool) {
			changes.object("view", v, v.Status.Conditions, gone)
		}),
		onChange(ctx, watched, changes.event),
	)
}

// onChange calls changed with each T when it appears and changes, and with gone when it is deleted.
func onChange[T any, P interface {
	*T
	client.Object
}](ctx context.Context, watched cache.Cache, changed func(obj P, gone bool)) error {
	informer, err := watched.GetInformer(ctx, P(new(T)))
	if err != nil {
		return fmt.Errorf("watching %T: %w", P(nil), err)
	}
	seen := func(obj any, gone bool) {
		if typed, ok := obj.(P); ok {
			changed(typed, gone)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen(obj, false) },
		UpdateFunc: func(_, obj any) { seen(obj, false) },
		DeleteFunc: func(obj any) {
			// The informer missed the deletion itself while its watch was broken.
			if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			seen(obj, true)
		},
	})
	if err != nil {
		return fmt.Errorf("watching %T: %w", P(nil), err)
	}
	return nil
}

// changes prints each change once.
type changes struct {
	out    *progress
	system string // namespace of the operator

	mu      sync.Mutex
	printed map[string]string
}

// once prints text about subject unless it was the last text about it.
func (c *changes) once(subject, topic, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.printed[subject] == text {
		return
	}
	c.printed[subject] = text
	if text != "" {
		c.out.printf(topic, "%s", text)
	}
}

func (c *changes) lease(lease *coordinationv1.Lease, gone bool) {
	if lease.Namespace != c.system || lease.Name != leasehold.Lease {
		return
	}
	// The identity is the Pod's name, an underscore and a random ID of the process.
	leader, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	if gone || leader == "" {
		c.once("lease", "leader", "none: the Lease is released")
		return
	}
	c.once("lease", "leader", leader+" leads")
}

func (c *changes) object(topic string, o client.Object, conditions []metav1.Condition, gone bool) {
	subject := topic + "/" + o.GetName()
	switch {
	case gone:
		c.once(subject, topic, o.GetName()+" is gone")
		return
	case o.GetDeletionTimestamp() != nil:
		c.once(subject+"/deletion", topic, o.GetName()+" is being deleted")
	}
	for _, condition := range conditions {
		text := fmt.Sprintf("%s: %s=%s (%s) %s", o.GetName(), condition.Type, condition.Status, condition.Reason,
			condition.Message)
		c.once(subject+"/"+condition.Type, topic, text)
	}
}

func (c *changes) event(event *eventsv1.Event, gone bool) {
	group, _, _ := strings.Cut(event.Regarding.APIVersion, "/")
	if gone || group != v1beta1.GroupVersion.Group {
		return
	}
	times := ""
	if event.Series != nil {
		times = fmt.Sprintf(" (%d times)", event.Series.Count)
	}
	text := fmt.Sprintf("%s: %s %s: %s%s", event.Regarding.Name, event.Type, event.Reason, event.Note, times)
	c.once("event/"+string(event.UID), "event", text)
}

// conditionOf returns the fields of the condition of this type, or nil.
func conditionOf(obj *unstructured.Unstructured, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions") // none if absent or malformed
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == kind {
			return fields
		}
	}
	return nil
}
