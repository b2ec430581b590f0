// Package rowtest runs the checks of the gate in their tests.
package rowtest

import (
	"context"
	"testing"

	"k8s.io/utils/clock"

	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/stage"
)

// Check compares two folders quickly and returns the rows by their IDs. The test ends
// if they could not be compared.
func Check(t *testing.T, check func(context.Context, row.Pair) ([]row.Row, error), base, head string) map[string]row.Row {
	t.Helper()
	rows, err := check(t.Context(), row.Pair{
		Base: stage.Checkout{Dir: base}, Head: stage.Checkout{Dir: head},
		Bench: stage.Bench{Dir: t.TempDir(), Seed: 1, Quick: true, Clock: clock.RealClock{}, Say: t.Logf},
	})
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]row.Row{}
	for _, r := range rows {
		byID[r.ID] = r
	}
	return byID
}
