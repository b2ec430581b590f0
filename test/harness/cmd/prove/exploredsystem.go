package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/explore"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

const (
	// restFor is the time for which an idle operator is observed.
	restFor = time.Second
	// readyWithin bounds the time until an object is ready. An object that does not become ready is
	// in an error state.
	readyWithin = 15 * time.Second
)

// exploredSystem is an explore.System with a control plane and the operator.
type exploredSystem struct {
	*explored

	prover   *run.Prover
	promises invariant.Contract
	seed     uint64
}

// seedOf returns a seed for the choices within a sequence. It does not depend on other sequences,
// so the sequence leads to the same choices when it is replayed alone.
func seedOf(seed uint64, s explore.Sequence) uint64 {
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%d %s", seed, s) // a hash never fails
	return hash.Sum64()
}

// Run implements explore.System.
func (s *exploredSystem) Run(ctx context.Context, specs []map[string]any, crash bool) ([]explore.Rest, error) {
	wanted := s.scenario(specs)
	if crash {
		return s.runWithCrash(ctx, specs, wanted)
	}
	ref, err := s.prover.Reference(ctx, wanted, 1)
	if apierrors.IsNotFound(err) && len(specs) > 1 {
		// The steps after a rejected creation have no object.
		return []explore.Rest{{Rejected: "no object was created"}}, nil
	}
	if err != nil {
		return nil, err
	}
	return s.rests(ref.Histories[0], len(specs))
}

func (s *exploredSystem) scenario(specs []map[string]any) scenario.Scenario {
	return scenario.Scenario{Name: "explore " + s.Explorer.Kind, Steps: s.steps(specs)}
}

// runWithCrash kills the leader at a write that the first change leads to.
func (s *exploredSystem) runWithCrash(ctx context.Context, specs []map[string]any,
	wanted scenario.Scenario) ([]explore.Rest, error) {
	creates, err := s.plansOfCreation(ctx)
	if err != nil {
		return nil, err
	}
	ref, err := s.prover.Reference(ctx, s.scenario(specs[:2]), 1)
	if err != nil {
		return nil, err
	}
	plans := slices.DeleteFunc(crashes(ref), func(p run.Plan) bool { return slices.Contains(creates, p.ID()) })
	if len(plans) == 0 {
		return nil, fmt.Errorf("%w: the change leads to no write", explore.ErrNoFault)
	}
	ref.Scenario = wanted
	outcome, err := s.prover.Run(ctx, ref, slices.MinFunc(plans, run.Order(s.seed)))
	if err != nil {
		return nil, err
	}
	if len(outcome.History.Void()) > 0 {
		return nil, explore.ErrNoFault
	}
	return s.rests(outcome.History, len(specs))
}

// plansOfCreation returns the IDs of the crashes at writes that the creation of the sample leads
// to.
func (s *exploredSystem) plansOfCreation(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.creates != nil {
		return s.creates, nil
	}
	ref, err := s.prover.Reference(ctx, s.scenario([]map[string]any{s.Sample}), 1)
	if err != nil {
		return nil, err
	}
	for _, p := range crashes(ref) {
		s.creates = append(s.creates, p.ID())
	}
	return s.creates, nil
}

// crashes returns the plans that kill the leader at a write. There is one of each kind at each
// write, so no seed selects them.
func crashes(ref *run.Reference) []run.Plan {
	return slices.DeleteFunc(ref.Plans(0), func(p run.Plan) bool {
		return p.Fault != run.CrashAfterWrite
	})
}

// reference names the object.
func (x *explored) reference() scenario.Ref {
	o := &unstructured.Unstructured{Object: x.object}
	return scenario.Ref{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// rests returns what the history has of each of n specs.
func (s *exploredSystem) rests(h *history.History, n int) ([]explore.Rest, error) {
	applied := s.applied(h)
	if len(applied) != n || len(h.Checkpoints) < n {
		return nil, fmt.Errorf("reading the history of %s: it has %d of %d changes and %d checkpoints", s.Explorer.Kind,
			len(applied), n, len(h.Checkpoints))
	}
	rests := make([]explore.Rest, n)
	for i, request := range applied {
		at := slices.IndexFunc(h.Checkpoints, func(c history.Checkpoint) bool { return c.Name == checkpoint(i) })
		r := explore.Rest{Ready: h.Checkpoints[at].Converged,
			State: s.withoutSpec(invariant.StateAt(h, s.promises, checkpoint(i)))}
		if request.Code >= http.StatusBadRequest {
			r.Rejected = fmt.Sprintf("%d %s", request.Code, request.Reason)
			// A webhook writes before its answer, and a reconcile may be as fast.
			r.Writes = s.writes(h, request.Received, h.Checkpoints[at].Ended)
		}
		rests[i] = r
	}
	return rests, nil
}

// withoutSpec removes the spec of the explored object from a state. It is the user's input, and a
// default that admission sets only on creation is no difference of the operator's doing.
func (s *exploredSystem) withoutSpec(state explore.State) explore.State {
	ref := s.reference()
	own := history.Key{Resource: s.Resource, Namespace: ref.Namespace, Name: ref.Name}.String()
	maps.DeleteFunc(state[own], func(path, _ string) bool { return strings.HasPrefix(path, ".spec.") })
	return state
}

// applied returns the user's writes of the object that the API server accepted or finally rejected,
// in order. The others were repeated.
func (s *exploredSystem) applied(h *history.History) []history.Request {
	normal, ref := h.Normalizer(), s.reference()
	var all []history.Request
	for _, r := range h.Requests {
		final := r.Code < http.StatusMultipleChoices ||
			slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity}, r.Code)
		if r.Resource == s.Resource && r.Verb == "patch" && r.Subresource == "" && final &&
			!slices.Contains(s.promises.Users, r.User) &&
			r.Namespace == ref.Namespace && normal.Replace(r.Name) == ref.Name {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b history.Request) int { return a.Received.Compare(b.Received) })
	return all
}

// writes returns the operator's writes in a time.
func (s *exploredSystem) writes(h *history.History, from, to time.Time) []string {
	var all []string
	for _, r := range h.Requests {
		if r.Done() && slices.Contains(s.promises.Users, r.User) && r.Key != s.promises.Lease &&
			!slices.Contains(s.promises.AnyReplica, r.Resource) && r.Received.After(from) && r.Received.Before(to) {
			all = append(all, r.String())
		}
	}
	return all
}
