package writes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/performance/stage"
)

const (
	editors = 4
	// pace is how often each of them changes something: far more often than people and
	// pipelines do, and the same on every machine.
	pace = 25 * time.Millisecond

	poll     = 100 * time.Millisecond
	patience = 2 * time.Minute
)

// contend has several clients edit the same Tenants and counts how many of the
// operator's writes are refused, because something had changed or was there (W5).
func contend(ctx context.Context, b stage.Bench) (_ figures.Figure, err error) {
	tenants, lasts := 50, 5*time.Second
	if b.Quick {
		tenants, lasts = 5, time.Second
	}
	f := figures.Figure{ID: "W5", Title: "writes refused as Conflict or AlreadyExists, of 1000", Goal: figures.AtMost(1)}
	b.Say("%d editors of %d Tenants", editors, tenants)
	s, err := stage.Start(ctx, b.Checkout, stage.Options{Replicas: 2})
	if err != nil {
		return f, fmt.Errorf("setting the stage for editors: %w", err)
	}
	defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
	for n := range tenants {
		t := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: nameOf(n)}, Spec: v1beta1.TenantSpec{
			Namespaces: []v1beta1.NamespaceSuffix{"a"}, Admins: []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "ann"}},
		}}
		if err := s.Client.Create(ctx, t); err != nil {
			return f, fmt.Errorf("creating %s: %w", t.Name, err)
		}
	}
	if err := settled(ctx, s); err != nil {
		return f, err
	}
	from, err := record.End(s.Plane.AuditLog())
	if err != nil {
		return f, err
	}
	edits, err := edit(ctx, b, s.Client, tenants, lasts)
	if err != nil {
		return f, err
	}
	if err := settled(ctx, s); err != nil {
		return f, err
	}
	writes, conflicts, err := tried(s.Plane.AuditLog(), from)
	if err != nil {
		return f, err
	}
	if writes == 0 {
		return f, errors.New("the operator has written nothing, whatever its Tenants were changed to")
	}
	refused := 0
	for _, n := range conflicts {
		refused += n
	}
	f.Runs = []float64{1000 * float64(refused) / float64(writes)}
	f.Note = fmt.Sprintf("%d of %d writes (%s), while %d clients made %d changes to %d Tenants in %v; each write requires what was judged (D1)",
		refused, writes, describe(conflicts), editors, edits, tenants, lasts)
	return f, nil
}

func nameOf(n int) string { return fmt.Sprintf("contest-%d", n) }

// edit has the editors change labels and admins of Tenants at random, without
// looking at them before. It returns how many changes they have made.
func edit(ctx context.Context, b stage.Bench, c client.Client, tenants int, lasts time.Duration) (int, error) {
	end := b.Clock.Now().Add(lasts)
	made := make([]int, editors)
	group, ctx := errgroup.WithContext(ctx)
	for editor := range editors {
		chance := rand.New(rand.NewPCG(b.Seed, uint64(editor)))
		group.Go(func() error {
			ticker := b.Clock.NewTicker(pace)
			defer ticker.Stop()
			for b.Clock.Now().Before(end) {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-ticker.C():
				}
				t := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: nameOf(chance.IntN(tenants))}}
				patch := fmt.Sprintf(`{"metadata":{"labels":{"example.com/edited":"%d-%d"}}}`, editor, made[editor])
				if chance.IntN(2) == 0 {
					patch = fmt.Sprintf(`{"spec":{"admins":[{"kind":"User","name":"editor-%d-%d"}]}}`, editor, made[editor])
				}
				if err := c.Patch(ctx, t, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
					return fmt.Errorf("editing %s: %w", t.Name, err)
				}
				made[editor]++
			}
			return nil
		})
	}
	err := group.Wait()
	sum := 0
	for _, n := range made {
		sum += n
	}
	return sum, err
}

// settled waits until all Tenants are Ready for their newest generation.
func settled(ctx context.Context, s *stage.Stage) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		var list v1beta1.TenantList
		if err := s.Client.List(ctx, &list); err != nil {
			return false, fmt.Errorf("listing tenants: %w", err)
		}
		last = nil
		for _, t := range list.Items {
			if t.Status.ObservedGeneration != t.Generation || !meta.IsStatusConditionTrue(t.Status.Conditions, v1beta1.ConditionReady) {
				last = fmt.Errorf("%s is not Ready: %v", t.Name, t.Status.Conditions)
			}
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the Tenants: %w", errors.Join(err, last))
	}
	return nil
}

// tried counts what the operator has tried to write since, but for its Lease and
// events, and by resource what of it was refused because of the state of the object.
func tried(log string, from record.Bookmark) (writes int, conflicts map[string]int, err error) {
	events, _, err := record.ReadAuditLogFrom(log, from)
	if err != nil {
		return 0, nil, err
	}
	conflicts = map[string]int{}
	for _, e := range record.Writes(events, stage.User,
		record.Not(record.Resource("coordination.k8s.io", "leases")), record.Not(record.Resource("events.k8s.io", "events"))) {
		writes++
		if record.Conflicted(e) {
			conflicts[strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")]++
		}
	}
	return writes, conflicts, nil
}

// describe names the resources in alphabetical order, with their numbers.
func describe(conflicts map[string]int) string {
	if len(conflicts) == 0 {
		return "none refused"
	}
	var list []string
	for _, resource := range slices.Sorted(maps.Keys(conflicts)) {
		list = append(list, fmt.Sprintf("%s %d", resource, conflicts[resource]))
	}
	return strings.Join(list, ", ")
}
