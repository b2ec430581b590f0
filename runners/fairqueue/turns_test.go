package fairqueue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Between two services of a namespace with a backlog every other namespace that has
// waited since the first of them is served, whatever is added and promoted meanwhile. No request
// takes any time, so that turns decide.
func TestNamespacesTakeTurns(t *testing.T) {
	rapid.Check(t, namespacesTakeTurns)
}

func namespacesTakeTurns(t *rapid.T) {
	q := New("test", nil)
	q.(*queue).clock = testingclock.NewFakeClock(time.Time{})
	defer q.ShutDown()
	waiting := map[bool]map[string]map[string]bool{false: {}, true: {}} // background, namespace, name
	// since has, for each class and namespace, those that waited when it was last served and
	// have not been served since.
	since := map[bool]map[string]map[string]bool{false: {}, true: {}}
	find := func(r reconcile.Request) (class, queued bool) {
		for _, class := range []bool{false, true} {
			if waiting[class][r.Namespace][r.Name] {
				return class, true
			}
		}
		return false, false
	}
	forget := func(class bool, namespace, name string) {
		delete(waiting[class][namespace], name)
		if len(waiting[class][namespace]) == 0 {
			delete(waiting[class], namespace)
			for _, others := range since[class] {
				delete(others, namespace) // it no longer waits
			}
		}
	}
	queued, foregroundInARow := 0, 0
	t.Repeat(map[string]func(*rapid.T){
		"add": func(t *rapid.T) {
			r := request(
				rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "namespace"),
				fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "name")))
			low := rapid.Bool().Draw(t, "low")
			priority := 0
			if low {
				priority = background
			}
			q.AddWithOpts(opts(priority, 0), r)
			class, known := find(r)
			switch {
			case known && (low || !class):
				return
			case known:
				forget(class, r.Namespace, r.Name)
			default:
				queued++
			}
			if waiting[low][r.Namespace] == nil {
				waiting[low][r.Namespace] = map[string]bool{}
			}
			waiting[low][r.Namespace][r.Name] = true
		},
		"serve": func(t *rapid.T) {
			if queued == 0 {
				return
			}
			lowWaits := len(waiting[true]) > 0
			r, _, _ := q.GetWithPriority()
			q.Done(r)
			queued--
			class, known := find(r)
			if !known {
				t.Fatalf("served %v, which does not wait", r)
			}
			if skipped := since[class][r.Namespace]; len(skipped) > 0 {
				t.Fatalf("%s is served twice, %v not at all meanwhile", r.Namespace, skipped)
			}
			foregroundInARow++
			if class || !lowWaits {
				foregroundInARow = 0
			}
			if foregroundInARow >= 5 {
				t.Fatal("5 foreground requests in a row, and those of the background wait")
			}
			forget(class, r.Namespace, r.Name)
			for _, others := range since[class] {
				delete(others, r.Namespace)
			}
			since[class][r.Namespace] = map[string]bool{}
			for namespace := range waiting[class] {
				if namespace != r.Namespace {
					since[class][r.Namespace][namespace] = true
				}
			}
		},
		"": func(t *rapid.T) {
			if q.Len() != queued {
				t.Fatalf("%d requests are ready, want %d", q.Len(), queued)
			}
		},
	})
}

// The queue serves the namespace whose requests took the least time. So a namespace of requests
// that take long leaves the workers to one of short requests, however many wait.
func TestTimeOfWorkersIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New("test", nil)
		defer q.ShutDown()
		for i := range 40 {
			q.Add(request(fmt.Sprintf("slow-%d", i%4), fmt.Sprint(i)))
		}
		for i := range 20 {
			q.Add(request("short", fmt.Sprint(i)))
		}
		began := time.Now()
		short := 0
		for short < 20 {
			r, _, _ := q.GetWithPriority()
			if r.Namespace == "short" {
				short++
				<-time.After(20 * time.Millisecond)
			} else {
				<-time.After(2 * time.Second)
			}
			q.Done(r)
		}
		// One turn of each slow namespace, and all short requests.
		if took := time.Since(began); took != 4*2*time.Second+20*20*time.Millisecond {
			t.Errorf("the short requests were served after %s, want 8.4s", took)
		}
		// A namespace that was idle begins with the usage of the one that was served last.
		for i := range 3 {
			q.Add(request("late", fmt.Sprint(i)))
		}
		var order []string
		for range 6 {
			r, _, _ := q.GetWithPriority()
			order = append(order, r.Namespace)
			<-time.After(time.Second)
			q.Done(r)
		}
		if diff := cmp.Diff([]string{"late", "late", "slow-0", "slow-1", "slow-2", "slow-3"}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// A namespace with one request that is added again while a worker has it is charged like one with a
// backlog. Otherwise two such namespaces would keep the worker from all with a backlog.
func TestTimeOfSingleRequestsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New("test", nil)
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
		q := New("test", nil)
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
		if got := usedFlows(q); got != 101 {
			t.Errorf("the queue has %d flows, want all 101 that took a second each", got)
		}
		take() // the backlog's second one, at the usage of the others
		if got := usedFlows(q); got != 1 {
			t.Errorf("the queue has %d flows, want the one with a backlog", got)
		}
		take()
		if got := usedFlows(q); got != 0 {
			t.Errorf("the empty queue has %d flows", got)
		}
	})
}

// A namespace with a large backlog in the background, as after a change of the leader, takes little
// time while another is busy. A change of all its objects then takes turns with a new namespace.
func TestBackgroundGivesNoAdvantage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New("test", nil)
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

// usedFlows returns the number of flows whose usage a queue has.
func usedFlows(q priorityqueue.PriorityQueue[reconcile.Request]) int {
	own := q.(*queue)
	own.mu.Lock()
	defer own.mu.Unlock()
	return len(own.turns.foreground.used) + len(own.turns.background.used)
}
