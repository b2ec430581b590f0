package scale

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"leasehold.dev/test/harness/record"
)

// collections is how many garbage collections have to end before the heap is read.
const collections = 4

// footprint is the memory of the operator, in bytes.
type footprint struct {
	// heap is what garbage collection found in use.
	heap float64
	// resident is the resident memory of the process.
	resident float64
}

// footprint reads the memory of a replica that has nothing to do. The operator has no endpoint
// that collects garbage. Each read of the metrics makes garbage, so they are read until enough
// collections have ended. The least heap counts, because a response that is being written is
// no part of it.
func (f *testbed) footprint(ctx context.Context) (footprint, error) {
	url := fmt.Sprintf("http://127.0.0.1:%d/metrics", f.replica.Ports().Metrics)
	heap, begin := math.Inf(1), math.Inf(-1)
	for {
		metrics, err := record.ReadMetrics(ctx, http.DefaultClient, url)
		if err != nil {
			return footprint{}, err
		}
		cycles, counted := metrics.Sum("go_gc_cycles_total_gc_cycles_total")
		live, collected := metrics.Sum("go_gc_heap_live_bytes")
		resident, known := metrics.Sum("process_resident_memory_bytes")
		switch {
		case !counted || !collected || !known:
			return footprint{}, fmt.Errorf("%s does not expose its memory", f.replica.Name())
		case math.IsInf(begin, -1):
			begin = cycles
		case cycles >= begin+2:
			heap = min(heap, live)
		}
		if cycles >= begin+collections {
			return footprint{heap: heap, resident: resident}, nil
		}
	}
}
