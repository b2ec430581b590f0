// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/template"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/program"
	"leasehold.dev/test/leasehold"
)

// progress prints one line for each event, with the seconds since the start.
// It is safe for concurrent use.
type progress struct {
	began time.Time

	mu      sync.Mutex
	out     io.Writer
	printed map[string]string // the last text by subject
}

func newProgress(out io.Writer) *progress {
	return &progress{began: time.Now(), out: out, printed: map[string]string{}}
}

// printf prints a line about topic.
func (p *progress) printf(topic, format string, args ...any) { p.once("", topic, format, args...) }

// once is printf, but skips a text equal to the last one about subject. It indents the lines below the first.
func (p *progress) once(subject, topic, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if subject != "" && p.printed[subject] == text {
		return
	}
	p.printed[subject] = text
	text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 25))
	fmt.Fprintf(p.out, "%6.1f s  %-14s  %s\n", time.Since(p.began).Seconds(), topic, text)
}

// template prints a template of text with values.
func (p *progress) template(text string, values any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	functions := template.FuncMap{"quote": program.Quote}
	return template.Must(template.New("").Funcs(functions).Parse(text)).Execute(p.out, values)
}

// process can be restarted. Each restart makes a new Done channel.
type process interface {
	Pid() int
	Done() <-chan struct{}
}

// keep restarts a process each time it ends, until ctx is done. It backs off like a kubelet: no pause the first time,
// then 10 s, doubled each time, between the bounds. The back-off is reset after a run of twice the longest pause.
func (p *progress) keep(ctx context.Context, topic, name string, process process, shortest, longest time.Duration,
	restart func() error) {
	backOff := flowcontrol.NewBackOff(10*time.Second, longest)
	for {
		select {
		case <-ctx.Done():
			return
		case <-process.Done():
		}
		backOff.GC()
		pause := max(backOff.Get(name), shortest)
		if ctx.Err() == nil {
			p.printf(topic, "%s has exited; restarting it in %v", name, pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		backOff.Next(name, time.Now())
		if err := restart(); err != nil {
			p.printf("failed", "%v", err)
			return
		}
		p.printf(topic, "%s runs again as process %d", name, process.Pid())
	}
}

// follow watches the Lease, the objects of the operator's kinds and their events until ctx is done, and
// prints changes.
func (e *environment) follow(ctx context.Context) error {
	watched, err := cache.New(e.plane.Config(), cache.Options{Scheme: leasehold.Scheme()})
	if err != nil {
		return fmt.Errorf("creating the cache: %w", err)
	}
	e.running.Go(func() { _ = watched.Start(ctx) }) // its only error is that of GetInformer
	for _, kind := range []client.Object{&coordinationv1.Lease{}, &v1beta1.Tenant{}, &v1beta1.StorageBucket{},
		&v1beta1.MarkdownView{}, &eventsv1.Event{}} {
		informer, err := watched.GetInformer(ctx, kind)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { e.out.change(obj, false) },
				UpdateFunc: func(_, obj any) { e.out.change(obj, false) },
				DeleteFunc: func(obj any) { e.out.change(obj, true) },
			})
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}

// change prints how an object has changed. gone means that it was deleted.
func (p *progress) change(obj any, gone bool) {
	switch o := obj.(type) {
	case toolscache.DeletedFinalStateUnknown: // the informer missed the deletion itself while its watch was broken
		p.change(o.Obj, true)
	case *coordinationv1.Lease:
		// The identity is the Pod's name, an underscore and a random ID of the process.
		leader, _, _ := strings.Cut(ptr.Deref(o.Spec.HolderIdentity, ""), "_")
		text := leader + " is the leader"
		if gone || leader == "" {
			text = "no leader: the Lease is released"
		}
		if o.Namespace == leasehold.Namespace && o.Name == leasehold.Lease {
			p.once("lease", "leader", "%s", text)
		}
	case *v1beta1.Tenant:
		p.object("tenant", o, o.Status.Conditions, gone)
	case *v1beta1.StorageBucket:
		p.object("bucket", o, o.Status.Conditions, gone)
	case *v1beta1.MarkdownView:
		p.object("view", o, o.Status.Conditions, gone)
	case *eventsv1.Event:
		times := ""
		if o.Series != nil {
			times = fmt.Sprintf(" (%d times)", o.Series.Count)
		}
		if group, _, _ := strings.Cut(o.Regarding.APIVersion, "/"); group == v1beta1.GroupVersion.Group && !gone {
			p.once("event/"+string(o.UID), "event", "%s: %s %s: %s%s", o.Regarding.Name, o.Type, o.Reason, o.Note, times)
		}
	}
}

func (p *progress) object(topic string, o client.Object, conditions []metav1.Condition, gone bool) {
	subject := topic + "/" + o.GetName()
	if gone {
		p.once(subject, topic, "%s is gone", o.GetName())
		return
	}
	if o.GetDeletionTimestamp() != nil {
		p.once(subject, topic, "%s is being deleted", o.GetName())
	}
	for _, c := range conditions {
		p.once(subject+"/"+c.Type, topic, "%s: %s=%s (%s) %s", o.GetName(), c.Type, c.Status, c.Reason, c.Message)
	}
}
