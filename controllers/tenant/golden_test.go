package tenant

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
)

var update = flag.Bool("update", false, "write the golden files anew")

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("what is recorded is not %s (-want +got); if it is meant to change, run\n  go test ./controllers/tenant -update\n%s", file, diff)
	}
}

// series are the metrics of the world.
func (w *world) series() string {
	w.t.Helper()
	var lines []string
	for _, m := range []prometheus.Collector{w.r.metrics.added, w.r.metrics.removed, w.r.metrics.namespaces} {
		text, err := testutil.CollectAndFormat(m, expfmt.TypeTextPlain)
		w.must(err)
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

// TestReconcileGolden records what the operator reads past the cache, writes and reports until
// nothing is left to do.
func TestReconcileGolden(t *testing.T) {
	var got strings.Builder
	all := scenarios()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := newRecording(t, all[name])
		r.settle()
		fmt.Fprintf(&got, "== %s\n%s\n%s\n", name, strings.Join(r.lines, "\n"), r.series())
	}
	compareGolden(t, "testdata/reconcile.txt", got.String())
}
