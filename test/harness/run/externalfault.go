package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// observedCalls returns the calls of a clean run, from which plans are derived.
func (t *execution) observedCalls(h *history.History) []scenario.Call {
	normal := h.Normalizer()
	var all []scenario.Call
	_, requests := t.externalRequests()
	for _, r := range requests {
		path := normal.Replace(pathOf(r))
		if path == pathOf(r) {
			continue // it is about none of this run's things
		}
		all = append(all, scenario.Call{Method: r.Method, Path: path, Changed: r.Mutating() && r.Committed(),
			Answered: r.Status != 0})
	}
	return all
}

// pathOf returns a request's path with the names of its query parameters.
func pathOf(r fault.Request) string {
	path := strings.TrimSuffix(r.Path, "/")
	if len(r.Query) == 0 {
		return path
	}
	return path + "?" + strings.Join(slices.Sorted(maps.Keys(r.Query)), "&")
}

// matchOf returns the match for the requests whose pathOf is the target's path.
func matchOf(t scenario.Target, names map[string]string) (fault.Match, error) {
	path, query, asks := strings.Cut(scenario.Fill(t.Path, names), "?")
	m := fault.Match{Methods: []string{t.Method}, Path: path, NoQuery: !asks, From: t.Nth, To: t.Nth}
	if !asks {
		return m, nil
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return m, fmt.Errorf("reading the path %s: %w", t.Path, err)
	}
	m.Query = map[string]string{}
	for name := range parameters {
		m.Query[name] = ""
	}
	return m, nil
}

// slow is how long an answer is delayed. It is longer than the client's timeout in scenarios that
// have this fault.
const slow = 4 * time.Second

// externalFault disturbs one call to the external system.
type externalFault struct{}

func (e externalFault) inject(ctx context.Context, a *activeFault) error {
	x := a.prover.external
	if x == nil {
		return errors.New("the subject has no external system")
	}
	match, err := matchOf(a.plan.Target, a.names)
	if err != nil {
		return err
	}
	switch a.plan.Fault {
	case scenario.ExternalCrash:
		e.killCaller(ctx, a, match)
	case scenario.ExternalLostResponse:
		a.injectAt(x.Proxy(), match, fault.Cut{At: fault.AfterAnswer})
	case scenario.ExternalSlow:
		a.injectAt(x.Proxy(), match, fault.Delay{At: fault.AfterAnswer, For: slow})
	default:
		code, err := strconv.Atoi(a.plan.Variant)
		if err != nil {
			return fmt.Errorf("reading the code: %w", err)
		}
		answer, err := x.Refusal(code)
		if err != nil {
			return err
		}
		a.injectAt(x.Proxy(), match, answer)
	}
	return nil
}

// killCaller kills the replica whose call has been answered.
func (externalFault) killCaller(ctx context.Context, a *activeFault, match fault.Match) {
	gate, proxy := fault.NewGate(fault.AfterAnswer), a.prover.external.Proxy()
	a.injectAt(proxy, match, gate)
	a.tasks.Go(func() {
		held, err := gate.Wait(ctx)
		if err != nil {
			return // the run is over and no such call came
		}
		caller := proxy.Journal().Peer(held.Request)
		r := a.prover.replicaNamed(caller)
		if r == nil {
			a.setVoidReason("%s came, and its sender is unknown", held.Request)
			held.Release()
			return
		}
		a.killWith(ctx, r, held)
	})
}

// happened reports whether the fault met a call. The loss of a refusal counts for a read
// only: for a change the plan needs one that was made.
func (externalFault) happened(a *activeFault, r *replica, request fault.Request) bool {
	answered := !request.Answered.IsZero() && (request.Committed() || !request.Mutating())
	switch a.plan.Fault {
	case scenario.ExternalCrash:
		return a.wasKilled(r, request) && answered && request.Delivered.IsZero()
	case scenario.ExternalLostResponse:
		return answered && request.Delivered.IsZero()
	case scenario.ExternalSlow:
		// The replica gave up, or its answer was late.
		return answered && (request.Delivered.IsZero() || request.Delivered.Sub(request.Answered) >= slow)
	}
	return wasNotForwarded(request)
}
