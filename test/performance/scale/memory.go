package scale

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"k8s.io/apimachinery/pkg/api/meta"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"leasehold.dev/controllers/tenant"
	"leasehold.dev/test/performance/environment"
)

// collections is how many times the operator has to have collected garbage before
// its heap is believed.
const collections = 4

// footprint is what a fleet costs in memory, in bytes.
type footprint struct {
	// heap is what of the operator's heap was found to be in use when garbage was collected.
	heap float64
	// resident is what the process has of the machine.
	resident float64
	// held is what the objects that it has to know take, once.
	held float64
}

// footprint is taken at rest. The operator has no hook that would have it collect its
// garbage, so it is asked for its metrics, which makes garbage, until it has done
// so a few times. Of what it found then the least counts: an answer that was just being
// made is no part of it.
func (f *testbed) footprint(ctx context.Context) (footprint, error) {
	taken := footprint{heap: math.Inf(1)}
	var begin float64
	for first := true; ; first = false {
		metrics, err := environment.ReadMetrics(ctx, f.replica)
		if err != nil {
			return footprint{}, err
		}
		cycles, live := metrics.Sum("go_gc_cycles_total_gc_cycles_total", nil), metrics.Sum("go_gc_heap_live_bytes", nil)
		if first {
			begin = cycles
			continue
		}
		if cycles >= begin+2 {
			taken.heap = min(taken.heap, live)
		}
		if cycles >= begin+collections {
			taken.resident = metrics.Sum("process_resident_memory_bytes", nil)
			break
		}
	}
	if taken.heap == 0 || taken.resident == 0 {
		return footprint{}, fmt.Errorf("%s does not tell its memory", f.replica.Name())
	}
	var err error
	taken.held, err = f.held(ctx)
	return taken, err
}

// held is what the objects that the operator has to know for Tenants take, once, in
// the types and without what its caches strip.
func (f *testbed) held(ctx context.Context) (float64, error) {
	before := inUse()
	objects, err := f.objects(ctx)
	after := inUse()
	runtime.KeepAlive(objects)
	return after - before, err
}

func inUse() float64 {
	var stats runtime.MemStats
	// The first leaves what has a finalizer, and what is in a sync.Pool.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// objects are all that the controller of Tenants watches, each by itself as in a cache.
func (f *testbed) objects(ctx context.Context) ([]client.Object, error) {
	strip := cache.TransformStripManagedFields()
	var objects []client.Object
	for _, kind := range tenant.WatchedObjects() {
		gvk, err := apiutil.GVKForObject(kind, f.Client.Scheme())
		if err != nil {
			return nil, fmt.Errorf("finding out what is watched: %w", err)
		}
		empty, err := f.Client.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err != nil {
			return nil, fmt.Errorf("making a list of %s: %w", gvk.Kind, err)
		}
		list := empty.(client.ObjectList)
		if err := f.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing %s: %w", gvk.Kind, err)
		}
		err = meta.EachListItem(list, func(item kruntime.Object) error {
			stripped, err := strip(item)
			if err == nil {
				objects = append(objects, stripped.(client.Object).DeepCopyObject().(client.Object))
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("stripping %s: %w", gvk.Kind, err)
		}
	}
	return objects, nil
}
