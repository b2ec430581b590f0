package run

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// The faults of what the operator is told: P6 to P8.

const (
	// newsFor is how long the operator is told nothing: long enough to write on what it
	// believes, more than once.
	newsFor = 3 * time.Second
	// newsOver is how long is waited for the operator to ask again.
	newsOver = 20 * time.Second
)

// collection is the target's, as it is read.
func (a *armed) collection() fault.Match {
	return fault.Match{Methods: []string{http.MethodGet}, Path: scenario.Fill(a.plan.Target.Path, a.names)}
}

// spoilNews injects a fault of watches at all replicas, before the target's step.
func spoilNews(how string, newFault func(lasts time.Duration) fault.Fault) func(context.Context, *armed) error {
	return func(ctx context.Context, a *armed) error {
		lasts, err := a.newsLast(ctx)
		if err != nil {
			return err
		}
		return a.beforeAction(func() {
			for _, r := range a.prover.replicas {
				ended, began := a.lasts(), a.now()
				injection := a.inject(r, a.collection(), newFault(lasts))
				a.all.Go(func() {
					defer ended()
					a.awaitEnd(ctx, injection, lasts)
					if !injection.Happened() {
						a.missing("no news of %s were %s after step %d", a.plan.Target.Path, how, a.plan.Target.Nth)
						return
					}
					a.noted(history.Fault{
						Replica: r.process.Name(), Began: began, Ended: a.now(),
						Detail: fmt.Sprintf("news of %s were %s after step %d: %s", a.plan.Target.Path, how, a.plan.Target.Nth, a.withheld(r, began)),
					})
				})
			}
		})
	}
}

// newsLast is for how long the target's collection has no news. A standby that takes a silent
// watch of the Lease for a leader that is gone shows only after the Lease would have expired.
func (a *armed) newsLast(ctx context.Context) (time.Duration, error) {
	if a.collection().Path != path.Dir(a.prover.leasePath()) {
		return newsFor, nil
	}
	term, err := a.term(ctx)
	return term + newsFor, err
}

// awaitEnd waits for a fault that lasts so long to end by itself, but not for ever.
func (a *armed) awaitEnd(ctx context.Context, injection *fault.Injection, lasts time.Duration) {
	timer := a.prover.clock.NewTimer(lasts + newsOver)
	defer timer.Stop()
	select {
	case <-injection.Done():
	case <-timer.C():
		injection.Heal() // rest is not to be judged while it goes on
	case <-ctx.Done():
	}
}

// withheld are the first few events that had come for a replica from the target's
// collection since a time, or what else has happened to it.
func (a *armed) withheld(r *replica, since time.Time) string {
	const few = 5
	journal, collection := r.proxy.Journal(), a.collection()
	var all []string
	for _, f := range journal.Frames {
		if !f.Received.Before(since) && journal.Request(f.Request).Path == collection.Path {
			all = append(all, fmt.Sprintf("%s %s", f.Type, f.Name))
		}
	}
	switch {
	case len(all) == 0:
		return "it was listed anew"
	case len(all) > few:
		return strings.Join(all[:few], ", ") + " and others"
	}
	return strings.Join(all, ", ")
}

// news are what the replicas were told of the run's own objects soon after something
// had been done: what was told later may be too late for a fault that begins with the
// step.
func (t *trial) news(h *history.History) []scenario.News {
	normal := h.Normal()
	var all []scenario.News
	for _, r := range t.prover.replicas {
		journal := r.proxy.Journal()
		for _, f := range journal.Frames {
			if normal.Replace(f.Name) == f.Name && normal.Replace(f.Namespace) == f.Namespace {
				continue
			}
			action := 0
			for _, began := range t.acted {
				if began.After(f.Received) {
					break
				}
				action++
			}
			if action == 0 || f.Received.Sub(t.acted[action-1]) > newsFor/2 {
				continue
			}
			told := scenario.News{Path: normal.Replace(journal.Request(f.Request).Path), Action: action}
			if !slices.Contains(all, told) {
				all = append(all, told)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b scenario.News) int { return a.Action - b.Action })
	return all
}
