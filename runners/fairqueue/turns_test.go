package fairqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/runners/fairqueue"
)

// Between two services of a namespace with a backlog every other namespace that has
// waited since the first of them is served, whatever is added and promoted meanwhile. No request
// takes any time, so that turns decide.
func TestNamespacesTakeTurns(t *testing.T) {
	rapid.Check(t, namespacesTakeTurns)
}

func namespacesTakeTurns(t *rapid.T) {
	q := fairqueue.New("test", nil)
	fairqueue.SetClock(q, testingclock.NewFakeClock(time.Time{}))
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
		q := fairqueue.New("test", nil)
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
