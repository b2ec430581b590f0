// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/leasehold"
)

const (
	// slowest is added to patience for each Tenant, and longest bounds the time in which the audit
	// log may grow.
	slowest, longest = 250 * time.Millisecond, 30 * time.Minute
	// calm is the time without new records after which the operator is idle. tries is the number of
	// such times before events are counted, because events are sent asynchronously.
	calm, tries = time.Second, 5
	// collections is the number of garbage collections that must end before the heap is read.
	collections = 4
	editors     = 4
	// editPeriod is the interval between changes of each editor: far more often than users change Tenants.
	editPeriod = 25 * time.Millisecond
)

// threeNamespaces are the namespaces of each Tenant of a fleet.
var threeNamespaces = []v1beta1.NamespaceSuffix{"dev", "test", "prod"}

// fleetAudit is the audit policy.
//
//go:embed audit.yaml
var fleetAudit []byte

// fleet is the result for one fleet of Tenants.
type fleet struct {
	n int
	// took is the time from the leader's election until the last Tenant is Ready, and first until
	// the first write.
	took, first time.Duration
	spent       cost
	// empty was measured before there was any Tenant, worked right after all were made, and known
	// in a process that started with all of them.
	empty, worked, known footprint
}

// heapEach returns the growth of the heap for each Tenant.
func (r fleet) heapEach() float64 { return (r.known.heap - r.empty.heap) / float64(r.n) }

func (r fleet) writesEach() float64 { return float64(r.spent.writes) / float64(r.n) }

// idle returns the share of the workers' time without a write in flight: the operator's own
// computing and waiting. A worker has at most one write in flight, and sends no other requests, as
// the number of live reads shows.
func (r fleet) idle() float64 { return 1 - float64(r.spent.answering)/float64(workers*r.took) }

// withFleet calls measure with one replica on its own control plane. Leases are short, because no measurement includes
// a change of the leader. kube-controller-manager would add a ServiceAccount and a ConfigMap to each namespace, so it
// runs only a controller that is nearly idle.
func withFleet(ctx context.Context, b bench, what string, measure func(*environment) error, args ...string) error {
	b.logf("%s: starting a control plane", what)
	e, err := start(ctx, b.checkout,
		env.Options{Controllers: []string{"clusterrole-aggregation-controller"}, AuditPolicy: fleetAudit}, 1, nil,
		append([]string{"--leader-elect-retry-period=500ms"}, args...)...)
	if err == nil {
		err = errors.Join(measure(e), e.stop(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return fmt.Errorf("measuring %s: %w", what, err)
	}
	return nil
}

// measureFleet measures how the operator reconciles a fleet that exists when it begins to lead,
// without its client's rate limits.
func measureFleet(ctx context.Context, b bench, n int) (r fleet, err error) {
	r.n = n
	err = withFleet(ctx, b, fmt.Sprintf("%d Tenants", n), func(e *environment) error {
		return inOrder(
			func() (err error) { r.empty, err = e.footprint(ctx); return err },
			func() error { return e.standBy(ctx) },
			func() error { return e.create(ctx, n, threeNamespaces...) },
			func() error { return e.converge(ctx, &r) },
			func() (err error) {
				b.logf("%d Tenants: all Ready after %.1f s; reading the memory", n, r.took.Seconds())
				r.worked, err = e.footprint(ctx)
				return err
			},
			func() error { return e.standBy(ctx) },
			func() error { return e.hand(ctx, "") },
			func() error { return e.awaitReady(ctx) },
			func() error { return e.rest(ctx, calm) },
			func() (err error) { r.known, err = e.footprint(ctx); return err },
		)
	}, "--kube-api-qps=100000")
	return r, err
}

// inOrder runs steps until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// converge lets the replica lead and waits until the fleet is Ready. The last write apart from
// events is the status with which the last Tenant becomes Ready.
func (e *environment) converge(ctx context.Context, r *fleet) (err error) {
	if r.spent, err = e.spend(ctx, r.n, func() error { return e.hand(ctx, "") }); err != nil {
		return err
	}
	lease, err := leasehold.ElectionLease(ctx, e.client)
	if err != nil || lease.Spec.AcquireTime == nil {
		return errors.Join(errors.New("no replica leads"), err)
	}
	r.first, r.took = r.spent.first.Sub(lease.Spec.AcquireTime.Time), r.spent.last.Sub(lease.Spec.AcquireTime.Time)
	return nil
}

// awaitTenants returns when the operator is idle and there are at least n Tenants, all Ready.
func (e *environment) awaitTenants(ctx context.Context, n int) error {
	err := await(ctx, calm, patience+time.Duration(n)*slowest, "Tenants to be Ready", func(ctx context.Context) error {
		if err := e.rest(ctx, calm); err != nil {
			return err
		}
		return e.tenantsReady(ctx, n)
	})
	if err != nil {
		return err
	}
	return e.rest(ctx, tries*calm)
}

// rest returns when nothing has been written to the audit log for calm.
func (e *environment) rest(ctx context.Context, calm time.Duration) error {
	size, still := int64(-1), time.Now()
	return await(ctx, poll, longest, "all to be at rest", func(context.Context) error {
		info, err := os.Stat(e.plane.AuditLog())
		if err != nil {
			return err
		}
		if info.Size() != size {
			size, still = info.Size(), time.Now()
		}
		if time.Since(still) < calm {
			return errors.New("the audit log grows")
		}
		return nil
	})
}

// measureShipped creates a fleet while the operator leads with the shipped rate limits, as users do. Then several
// clients edit its Tenants. edited has the refused writes of the edits.
func measureShipped(ctx context.Context, b bench, z sizes) (made fleet, edited cost, err error) {
	made.n = z.limited
	err = withFleet(ctx, b, fmt.Sprintf("%d Tenants at the limits that ship", made.n), func(e *environment) (err error) {
		var began time.Time
		made.spent, err = e.spend(ctx, made.n, func() error {
			began = time.Now()
			return e.create(ctx, made.n, threeNamespaces...)
		})
		if err != nil {
			return err
		}
		made.took = made.spent.last.Sub(began)
		edited, err = e.spend(ctx, made.n, func() error { return e.edit(ctx, b.seed, z.edited, z.editing) })
		if err == nil && edited.writes == 0 {
			err = errors.New("the operator has written nothing, though its Tenants were changed")
		}
		return err
	})
	return made, edited, err
}

// spend returns the operator's cost of an action on n Tenants.
func (e *environment) spend(ctx context.Context, n int, do func() error) (c cost, err error) {
	if err := e.rest(ctx, calm); err != nil {
		return c, err
	}
	from, err := record.End(e.plane.AuditLog())
	if err != nil {
		return c, err
	}
	if err := inOrder(do, func() error { return e.awaitTenants(ctx, n) }); err != nil {
		return c, err
	}
	return e.costSince(from)
}

// edit changes labels and admins of random Tenants without reading them.
func (e *environment) edit(ctx context.Context, seed uint64, tenants int, lasts time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	for editor := range editors {
		random := rand.New(rand.NewPCG(seed, uint64(editor)))
		group.Go(func() error {
			for i := range int(lasts / editPeriod) {
				if err := pass(ctx, editPeriod); err != nil {
					return err
				}
				patch := fmt.Sprintf(`{"metadata":{"labels":{"example.com/edited":"%d-%d"}}}`, editor, i)
				if random.IntN(2) == 0 {
					patch = fmt.Sprintf(`{"spec":{"admins":[{"kind":"User","name":"editor-%d-%d"}]}}`, editor, i)
				}
				t := newTenant(random.IntN(tenants))
				if err := e.client.Patch(ctx, t, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
					return fmt.Errorf("editing %s: %w", t.Name, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// standBy restarts the replica as a standby. Its caches fill and its webhooks answer. The fence
// admits a client with its token, because the Lease names its Pod.
func (e *environment) standBy(ctx context.Context) error {
	r := e.installation.Replicas()[0]
	if _, err := r.Stop(ctx); err != nil {
		return fmt.Errorf("stopping the leader: %w", err)
	}
	return inOrder(func() error { return e.hand(ctx, r.Name()+"_no-process") }, r.Restart,
		func() error { return e.awaitReady(ctx) })
}

// hand writes the holder of the Lease. With an empty holder the first replica acquires it.
func (e *environment) hand(ctx context.Context, holder string) error {
	lease, err := leasehold.ElectionLease(ctx, e.client)
	if err != nil {
		return err
	}
	now := metav1.NewMicroTime(time.Now())
	lease.Spec.HolderIdentity = new(holder)
	lease.Spec.LeaseDurationSeconds = new(int32(time.Hour / time.Second))
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	if err := e.client.Update(ctx, lease); err != nil {
		return fmt.Errorf("handing over the election Lease: %w", err)
	}
	return nil
}

// footprint is the memory of the operator in bytes: the live heap after garbage collection, and the
// resident memory of the process.
type footprint struct{ heap, resident float64 }

// footprint reads the memory of an idle replica. The operator has no endpoint that triggers garbage
// collection. Each read of the metrics allocates memory, so they are read until enough collections
// have ended. The smallest heap counts, because it does not include a response being written.
func (e *environment) footprint(ctx context.Context) (footprint, error) {
	r := e.installation.Replicas()[0]
	url := fmt.Sprintf("http://127.0.0.1:%d/metrics", r.Ports().Metrics)
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
			return footprint{}, fmt.Errorf("%s does not expose its memory", r.Name())
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

// cost counts the operator's requests to the API server.
type cost struct {
	writes, reads, conflicts int
	// answering is the sum of the API server's response times for writes that are not events.
	answering time.Duration
	// first is when the API server received the first write, and last when it had stored the last
	// write that is not an event. Both are zero without writes.
	first, last time.Time
}

// costSince counts the operator's requests after the bookmark, without watches and without those of
// becoming the leader: an event, and the webhooks' certificate. Requests for the Lease are not recorded.
func (e *environment) costSince(from record.Bookmark) (c cost, err error) {
	events, _, err := record.ReadAuditLogFrom(e.plane.AuditLog(), from)
	if err != nil {
		return c, err
	}
	ofWebhooks := func(e auditv1.Event) bool {
		return e.ObjectRef != nil && e.ObjectRef.APIGroup == admissionregistrationv1.GroupName
	}
	own := record.Select(events, record.User(leasehold.User), record.Not(record.InNamespace(leasehold.Namespace)),
		record.Not(ofWebhooks))
	writes := record.Writes(own, leasehold.User)
	c = cost{writes: len(writes), reads: len(record.Select(own, record.Verb("get", "list"))),
		conflicts: len(record.Select(own, record.Conflicted))}
	for _, e := range writes {
		if at := e.RequestReceivedTimestamp.Time; c.first.IsZero() || at.Before(c.first) {
			c.first = at
		}
		if e.ObjectRef.Resource == "events" {
			continue
		}
		c.answering += e.StageTimestamp.Sub(e.RequestReceivedTimestamp.Time)
		if at := e.StageTimestamp.Time; at.After(c.last) {
			c.last = at
		}
	}
	return c, nil
}
