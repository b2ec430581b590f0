package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
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

// externalProxy returns the proxy of the external system and the match for the plan's call.
func (a *activeFault) externalProxy() (*fault.Proxy, fault.Match, error) {
	if a.prover.external == nil {
		return nil, fault.Match{}, errors.New("the subject has no external system")
	}
	match, err := matchOf(a.plan.Target, a.execution.names)
	return a.prover.external.Proxy(), match, err
}

// externalFault makes the plan's call meet a fault on its way to the external system.
type externalFault struct{ requestFault }

func (f externalFault) begin(_ context.Context, a *activeFault) error {
	proxy, match, err := a.externalProxy()
	if err != nil {
		return err
	}
	met, err := f.newFault(a)
	if err == nil {
		a.injectAt(proxy, match, met)
	}
	return err
}

// refuseCall answers the call with the plan's code, as the external system does.
func refuseCall(a *activeFault) (fault.Fault, error) {
	code, err := a.code()
	if err != nil {
		return nil, err
	}
	return a.prover.external.Refusal(code)
}

func delayAnswer(*activeFault) (fault.Fault, error) {
	return fault.Delay{At: fault.AfterAnswer, For: slow}, nil
}

// callWasSlow reports whether the replica gave up, or its answer was late.
func callWasSlow(request fault.Request) bool {
	return callWasAnswered(request) && (request.Delivered.IsZero() || request.Delivered.Sub(request.Answered) >= slow)
}

func callWasLost(request fault.Request) bool {
	return callWasAnswered(request) && request.Delivered.IsZero()
}

// callWasAnswered reports whether the external system answered. The loss of a refusal counts for a
// read only: for a change the plan needs one that was made.
func callWasAnswered(request fault.Request) bool {
	return !request.Answered.IsZero() && (request.Committed() || !request.Mutating())
}

// externalCrash kills the replica whose call has been answered.
type externalCrash struct{}

func (externalCrash) begin(ctx context.Context, a *activeFault) error {
	proxy, match, err := a.externalProxy()
	if err != nil {
		return err
	}
	a.holdAt(ctx, new(sync.Once), proxy, match, fault.AfterAnswer, func(held *fault.Held) error {
		r := a.prover.replicaNamed(proxy.Journal().Peer(held.Request))
		if r == nil {
			a.setVoidReason("%s came, and its sender is unknown", held.Request)
			return nil
		}
		return a.killAt(ctx, r, proxy, held, callWasLost)
	})
	return nil
}
