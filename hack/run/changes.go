package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/leasehold"
)

// follow watches the Lease, the objects of the operator's kinds and their events until ctx is done, and
// prints changes.
func (e *environment) follow(ctx context.Context) error {
	watched, err := cache.New(e.plane.Config(), cache.Options{Scheme: leasehold.Scheme()})
	if err != nil {
		return fmt.Errorf("creating the cache: %w", err)
	}
	e.running.Go(func() {
		if err := watched.Start(ctx); err != nil {
			e.out.printf("failed", "watching the cluster: %v", err)
		}
	})
	changes := &changes{out: e.out, printed: map[string]string{}}
	for _, kind := range []client.Object{&coordinationv1.Lease{}, &v1beta1.Tenant{}, &v1beta1.StorageBucket{},
		&v1beta1.MarkdownView{}, &eventsv1.Event{}} {
		informer, err := watched.GetInformer(ctx, kind)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { changes.seen(obj, false) },
				UpdateFunc: func(_, obj any) { changes.seen(obj, false) },
				DeleteFunc: func(obj any) { changes.seen(obj, true) },
			})
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}

// changes prints each change once.
type changes struct {
	out *progress

	mu      sync.Mutex
	printed map[string]string
}

// seen prints what is new of an object. gone is that it has been deleted.
func (c *changes) seen(obj any, gone bool) {
	// The informer missed the deletion itself while its watch was broken.
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	switch o := obj.(type) {
	case *coordinationv1.Lease:
		c.lease(o, gone)
	case *v1beta1.Tenant:
		c.object("tenant", o, o.Status.Conditions, gone)
	case *v1beta1.StorageBucket:
		c.object("bucket", o, o.Status.Conditions, gone)
	case *v1beta1.MarkdownView:
		c.object("view", o, o.Status.Conditions, gone)
	case *eventsv1.Event:
		c.event(o, gone)
	}
}

// once prints text about subject unless it was the last text about it.
func (c *changes) once(subject, topic, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.printed[subject] != text {
		c.printed[subject] = text
		c.out.printf(topic, "%s", text)
	}
}

func (c *changes) lease(lease *coordinationv1.Lease, gone bool) {
	if lease.Namespace != leasehold.Namespace || lease.Name != leasehold.Lease {
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
