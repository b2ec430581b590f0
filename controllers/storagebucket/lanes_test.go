package storagebucket

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func someone(i int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint(i)}}
}

// crowd lets n come to an endpoint and returns how many got in.
func crowd(l *lanes, endpoint string, n int) int {
	in := 0
	for i := range n {
		if l.enter(endpoint, someone(i)) {
			in++
		}
	}
	return in
}

func TestAnEndpointNeverTakesAllWorkers(t *testing.T) {
	l := newLanes(8)
	var called []reconcile.Request
	l.call = func(who reconcile.Request) { called = append(called, who) }
	if in := crowd(l, "dark", 10); in != 2 {
		t.Fatalf("%d got in where nobody knows whether it answers, want 2", in)
	}
	if !l.enter("other", someone(0)) {
		t.Error("another endpoint has to wait")
	}
	l.leave("dark", true, false)
	if len(called) != 1 {
		t.Errorf("%d were called for one place", len(called))
	}
	if !l.enter("dark", called[0]) || l.enter("dark", someone(99)) {
		t.Error("a place that was left is not free, or there are more than before")
	}
	called = nil
	l.leave("dark", true, true)
	if len(called) != 5 { // six places where it answers, one is taken
		t.Errorf("%d were called when it answered, want 5", len(called))
	}
	if in := crowd(l, "dark", 20); in != 5 {
		t.Errorf("%d got in beside the one, want 5: two workers are for others", in)
	}
	l.leave("dark", true, false)
	if l.enter("dark", someone(50)) {
		t.Error("got in although it answers no more")
	}
}

func TestNothingAskedTellsNothing(t *testing.T) {
	l := newLanes(8)
	crowd(l, "e", 2)
	l.leave("e", true, true)
	l.leave("e", false, false) // there were no credentials
	if in := crowd(l, "e", 20); in != shy {
		t.Errorf("%d got in, want %d: the lane was empty and is forgotten", in, shy)
	}
	l.leave("e", true, true)
	if !l.enter("e", someone(1)) {
		t.Fatal("it answered, and there is no place")
	}
	l.leave("e", false, false)
	if in := crowd(l, "e", 20); in != 5 {
		t.Errorf("%d got in beside the one, want 5: it answered, and was not asked again", in)
	}
}

func TestWhoWaitsIsKnownAndForgotten(t *testing.T) {
	l := newLanes(8)
	crowd(l, "dark", 3)
	if !l.aside("dark", someone(2)) || l.aside("dark", someone(0)) || l.aside("other", someone(2)) {
		t.Error("only the third waits")
	}
	l.leave("dark", true, false) // calls the third, who does not come
	l.leave("dark", true, false)
	if len(l.open) != 0 {
		t.Errorf("%d lanes are left, want none", len(l.open))
	}
	// One who was called and did not come keeps nobody waiting for ever.
	crowd(l, "dark", 4)
	l.leave("dark", true, false)
	l.leave("dark", true, false)
	for i := range 4 {
		if l.aside("dark", someone(i)) {
			t.Errorf("%d waits with nobody inside", i)
		}
	}
}

func TestOneWorkerIsEnough(t *testing.T) {
	l := newLanes(1)
	if in := crowd(l, "e", 3); in != 1 {
		t.Errorf("%d got in, want the one worker", in)
	}
}

func TestALaneHasOneNameHoweverItIsSpelled(t *testing.T) {
	l := newLanes(8)
	in := 0
	for i, endpoint := range []string{"http://dark", "http://dark/", "http://DARK", "http://dark:80"} {
		if l.enter(endpoint, someone(i)) {
			in++
		}
	}
	if in != shy {
		t.Errorf("%d got in by other spellings, want %d", in, shy)
	}
	if !l.enter("https://dark", someone(9)) {
		t.Error("another port is another server")
	}
}
