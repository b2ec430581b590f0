package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/leasehold"
)

// TestChanges_AreReportedOnce shows what is printed for a history of objects. TestTour shows the rest of the
// program.
func TestChanges_AreReportedOnce(t *testing.T) {
	var out bytes.Buffer
	c := &changes{out: newProgress(&out), printed: map[string]string{}}
	lease := func(ns, holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: leasehold.Lease},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(holder)},
		}
	}
	c.seen(lease("elsewhere", "x_1"), false)
	c.seen(lease(leasehold.Namespace, "a_1"), false)
	c.seen(lease(leasehold.Namespace, "a_1"), false) // renewed
	c.seen(lease(leasehold.Namespace, ""), false)
	c.seen(lease(leasehold.Namespace, "b_2"), false)

	tenant := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	tenant.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Reconciled", Message: "fine"}}
	c.seen(tenant, false)
	c.seen(tenant, false)
	tenant.DeletionTimestamp = new(metav1.Now())
	c.seen(tenant, false)
	c.seen(toolscache.DeletedFinalStateUnknown{Obj: tenant}, true)

	event := &eventsv1.Event{Type: "Normal", Reason: "Updated", Note: "the tenant was updated"}
	event.Regarding.Name = "t"
	c.seen(event, false) // about something else
	event.Regarding.APIVersion, event.Regarding.Kind = v1beta1.GroupVersion.String(), "Tenant"
	c.seen(event, false)
	event.Series = &eventsv1.EventSeries{Count: 2}
	c.seen(event, false)
	c.seen(event, true)

	got := regexp.MustCompile(`(?m)^ *[0-9.]+ s  (\S+) +`).ReplaceAllString(out.String(), "$1: ")
	want := `leader: a leads
leader: none: the Lease is released
leader: b leads
tenant: t: Ready=True (Reconciled) fine
tenant: t is being deleted
tenant: t is gone
event: t: Normal Updated: the tenant was updated
event: t: Normal Updated: the tenant was updated (2 times)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// crashing is a process that ends after it has run for the durations given, one for each start.
type crashing struct {
	runs   []time.Duration
	done   chan struct{}
	starts []time.Duration // since began
	began  time.Time
}

func (c *crashing) Pid() int              { return len(c.starts) }
func (c *crashing) Done() <-chan struct{} { return c.done }

func (c *crashing) restart() error {
	c.starts = append(c.starts, time.Since(c.began))
	done := make(chan struct{})
	if len(c.runs) > 0 {
		time.AfterFunc(c.runs[0], func() { close(done) })
		c.runs = c.runs[1:]
	}
	c.done = done
	return nil
}

// The pauses grow up to the longest, and begin anew after a process that ran for long.
func TestKeep_RestartsWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &crashing{done: make(chan struct{}), began: time.Now(),
			runs: []time.Duration{0, time.Second, 0, 11 * time.Minute, 0, 0, 0, 0, 0, 0}}
		close(c.done)
		var out bytes.Buffer
		ended := make(chan struct{})
		go func() { newProgress(&out).keep(ctx, "operator", "a", c, kubeletPause, c.restart); close(ended) }()
		<-time.After(2 * time.Hour)
		cancel()
		<-ended
		again := 11*time.Minute + 71*time.Second
		want := []time.Duration{0, 10 * time.Second, 31 * time.Second, 71 * time.Second, again, again + 10*time.Second,
			again + 30*time.Second, again + 70*time.Second, again + 150*time.Second, again + 310*time.Second,
			again + 610*time.Second}
		if diff := cmp.Diff(want, c.starts); diff != "" {
			t.Errorf("starts (-want +got):\n%s\n%s", diff, &out)
		}
		if want := "a runs again as process 11"; !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, &out)
		}
	})
}
