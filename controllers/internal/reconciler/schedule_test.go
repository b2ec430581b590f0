package reconciler

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestNextDue(t *testing.T) {
	last := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const period = 10 * time.Minute
	buckets := map[int]int{}
	for i := range 1000 {
		uid := types.UID(fmt.Sprintf("uid-%d", i))
		due := NextDue(last, period, uid).Sub(last)
		if due < period || due > 11*time.Minute {
			t.Fatalf("%s is due after %s, want 10m and at most 1m more", uid, due)
		}
		if again := NextDue(last, period, uid).Sub(last); again != due {
			t.Fatalf("%s is due after %s and then after %s: the distance must not wander", uid, due, again)
		}
		buckets[int((due-period)/(6*time.Second))]++
	}
	// Ten slots of 6 s: a fleet of 1000 must not gather in any of them.
	for slot, n := range buckets {
		if n > 200 {
			t.Errorf("slot %d holds %d of 1000 objects: not spread", slot, n)
		}
	}
	if len(buckets) < 10 {
		t.Errorf("only %d of 10 slots are used", len(buckets))
	}
}
