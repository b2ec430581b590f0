package run

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

// anyVersion is what a client asks for that takes any version there is.
const anyVersion = "0"

// startStale remembers the collection as it is before the target's step, and gives it
// to replicas that start a while after. All of that is legal: a client of Kubernetes
// that meets one internal error as it starts lists "any version", and in a cluster the
// API server that answers may be behind; it then watches from the version it was given.
func startStale(ctx context.Context, a *armed) error {
	refusal, err := fault.Refusal(http.StatusInternalServerError)
	if err != nil {
		return err
	}
	return a.beforeAction(func() {
		var before []listing
		for _, selected := range a.selections() {
			l, err := a.listed(ctx, selected)
			if err != nil {
				a.failed(err)
				return
			}
			before = append(before, l)
		}
		ended := a.lasts()
		a.all.Go(func() {
			defer ended()
			a.wait(ctx, newsFor)
			for _, r := range a.prover.replicas {
				a.outdate(ctx, r, refusal, before)
			}
		})
	})
}

// outdate kills a replica, whose next process finds what was before.
func (a *armed) outdate(ctx context.Context, r *replica, refusal fault.Answer, before []listing) {
	begins := a.collection()
	begins.Query = map[string]string{"sendInitialEvents": "true"}
	injections := []*fault.Injection{a.inject(r, begins, refusal)}
	for _, l := range before {
		lists := a.collection()
		lists.Query = maps.Clone(l.selected)
		lists.Query["resourceVersion"] = anyVersion
		injections = append(injections, a.inject(r, lists, l.Answer))
	}
	injections = append(injections, a.inject(r, a.collection(), fault.Lag{}))
	ended := a.lasts()
	r.kill()
	killed := a.now()
	a.all.Go(func() {
		defer ended()
		defer func() {
			for _, i := range injections {
				i.Heal()
			}
		}()
		if _, met := a.asked(ctx, r, killed, func(fault.Request) bool { return true }); !met {
			return
		}
		a.wait(ctx, staleFor)
		// A client that lists the newest version has no answer that is old and legal.
		found := fmt.Sprintf("listed %s at the newest version, and then found what is new late", a.plan.Target.Path)
		if slices.ContainsFunc(r.proxy.Journal().Requests, func(request fault.Request) bool {
			return request.Rule == a.ruleName() && !request.Received.Before(killed) && request.Query.Get("resourceVersion") == anyVersion
		}) {
			found = fmt.Sprintf("found %s as it was before step %d", a.plan.Target.Path, a.plan.Target.Nth)
		}
		a.noted(history.Fault{
			Replica: r.process.Name(), Began: killed, Ended: a.now(), Detail: "all replicas were killed, and " + found,
		})
	})
}

// listing is what who lists the collection is told.
type listing struct {
	fault.Answer

	// selected are the selectors in the query, by parameter.
	selected map[string]string
}

// selectors are the parameters that say what of a collection is meant.
var selectors = []string{"labelSelector", "fieldSelector"}

// selections are what replicas have watched the collection with: who asks for a part
// must not be given more. Those with more parameters come first, and at the end is
// everything.
func (a *armed) selections() []map[string]string {
	all, path := []map[string]string{{}}, a.collection().Path
	for _, r := range a.prover.replicas {
		for _, asked := range r.proxy.Journal().Requests {
			selected := map[string]string{}
			for _, name := range selectors {
				if value := asked.Query.Get(name); value != "" {
					selected[name] = value
				}
			}
			if asked.Path == path && asked.Query.Get("watch") == "true" &&
				!slices.ContainsFunc(all, func(o map[string]string) bool { return maps.Equal(o, selected) }) {
				all = append(all, selected)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y map[string]string) int { return len(y) - len(x) })
	return all
}

// listed is the answer to who lists that part of the collection now.
func (a *armed) listed(ctx context.Context, selected map[string]string) (listing, error) {
	of, err := a.prover.resourceAt(a.collection().Path)
	if err != nil {
		return listing{}, err
	}
	list, err := of.List(ctx, metav1.ListOptions{LabelSelector: selected["labelSelector"], FieldSelector: selected["fieldSelector"]})
	if err != nil {
		return listing{}, fmt.Errorf("listing %s: %w", a.plan.Target.Path, err)
	}
	body, err := json.Marshal(list)
	if err != nil {
		return listing{}, fmt.Errorf("encoding the list of %s: %w", a.plan.Target.Path, err)
	}
	return listing{fault.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: string(body)}, selected}, nil
}
