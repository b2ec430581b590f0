package fairqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"leasehold.dev/runners/fairqueue"
)

// A namespace with one request that is added again while a worker has it is charged like one with a
// backlog. Otherwise two such namespaces would keep the worker from all with a backlog.
func TestTimeOfSingleRequestsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New("test", nil)
		defer q.ShutDown()
		for i := range 5 {
			q.Add(request("backlog", fmt.Sprint(i)))
		}
		q.Add(request("edited-1", "a"))
		q.Add(request("edited-2", "a"))
		served := map[string]int{}
		for range 30 {
			r, _, _ := q.GetWithPriority()
			served[r.Namespace]++
			<-time.After(2 * time.Second)
			if r.Namespace != "backlog" {
				q.Add(r) // its user edits the object all the time
			}
			q.Done(r)
		}
		if served["backlog"] != 5 {
			t.Errorf("of 30 requests %v were served, want all 5 of the backlog", served)
		}
	})
}

// The queue drops the usage of idle flows that the others have reached, and all of it when it
// is empty. So namespaces that come and go need no memory.
func TestUsageOfIdleFlowsIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New("test", nil)
		defer q.ShutDown()
		take := func() {
			r, _, _ := q.GetWithPriority()
			<-time.After(time.Second)
			q.Done(r)
		}
		for i := range 3 {
			q.Add(request("backlog", fmt.Sprint(i)))
		}
		for i := range 100 {
			q.Add(request(fmt.Sprintf("once-%d", i), "a"))
		}
		for range 101 {
			take()
		}
		if got := fairqueue.Flows(q); got != 101 {
			t.Errorf("the queue has %d flows, want all 101 that took a second each", got)
		}
		take() // the backlog's second one, at the usage of the others
		if got := fairqueue.Flows(q); got != 1 {
			t.Errorf("the queue has %d flows, want the one with a backlog", got)
		}
		take()
		if got := fairqueue.Flows(q); got != 0 {
			t.Errorf("the empty queue has %d flows", got)
		}
	})
}

// A namespace with a large backlog in the background, as after a change of the leader, takes little
// time while another is busy. A change of all its objects then takes turns with a new namespace.
func TestBackgroundGivesNoAdvantage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New("test", nil)
		defer q.ShutDown()
		for i := range 1000 {
			q.AddWithOpts(opts(background, 0), request("backlog", fmt.Sprint(i)))
		}
		q.Add(request("busy", "a"))
		q.Add(request("busy", "b"))
		take := func() string {
			r, _, _ := q.GetWithPriority()
			<-time.After(time.Second)
			if r.Namespace == "busy" {
				q.Add(r)
			}
			q.Done(r)
			return r.Namespace
		}
		for range 500 {
			take()
		}
		for i := range 1000 {
			q.Add(request("backlog", fmt.Sprint(i)))
		}
		q.Add(request("late", "a"))
		waited := 1
		for take() != "late" {
			waited++
		}
		if waited > 5 {
			t.Errorf("a new namespace waited for %d requests of a second", waited)
		}
	})
}
