package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

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
		before, err := a.listed(ctx)
		if err != nil {
			a.failed(err)
			return
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
func (a *armed) outdate(ctx context.Context, r *replica, refusal, before fault.Answer) {
	begins, lists := a.collection(), a.collection()
	begins.Query = map[string]string{"sendInitialEvents": "true"}
	lists.Query = map[string]string{"resourceVersion": anyVersion}
	injections := []*fault.Injection{a.inject(r, begins, refusal), a.inject(r, lists, before), a.inject(r, a.collection(), fault.Lag{})}
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
		_, met := a.asked(ctx, r, killed, func(asked fault.Request) bool { return asked.Query.Get("resourceVersion") == anyVersion })
		if !met {
			return
		}
		a.wait(ctx, staleFor)
		a.noted(history.Fault{
			Replica: r.process.Name(), Began: killed, Ended: a.now(),
			Detail: fmt.Sprintf("all replicas were killed, and found %s as it was before step %d", a.plan.Target.Path, a.plan.Target.Nth),
		})
	})
}

// listed is the answer to who lists the collection now.
func (a *armed) listed(ctx context.Context) (fault.Answer, error) {
	of, err := a.prover.resourceAt(a.collection().Path)
	if err != nil {
		return fault.Answer{}, err
	}
	list, err := of.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fault.Answer{}, fmt.Errorf("listing %s: %w", a.plan.Target.Path, err)
	}
	body, err := json.Marshal(list)
	if err != nil {
		return fault.Answer{}, fmt.Errorf("encoding the list of %s: %w", a.plan.Target.Path, err)
	}
	return fault.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: string(body)}, nil
}
