// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// External is a system outside the cluster that a subject uses. All calls of the replicas go
// through one proxy, which identifies the caller by the owner of the connection.
type External interface {
	// Proxy is the endpoint that replicas use.
	Proxy() *fault.Proxy
	// Values returns the values that scenarios may name in braces, such as store.endpoint. Secret
	// values must not be written to a file.
	Values() (open, secret map[string]string)
	// Do makes a change as another client, past the proxy. It returns an error for an unknown
	// change.
	Do(ctx context.Context, change, thing string) error
	// Look lists what really exists.
	Look(ctx context.Context) ([]history.ExternalThing, error)
	// Read decodes a request into a call. It returns false for a request that no invariant judges.
	Read(r fault.ProxiedRequest) (history.Call, bool)
	// Refusal returns an error answer with code 403, 500 or 503 in the system's own format.
	Refusal(code int) (fault.Answer, error)
	// Stop stops the system.
	Stop() error
}

// StartExternal starts an external system. Its proxy uses the clock. peer returns the replica that
// opened a connection, by the addresses of both ends.
type StartExternal func(ctx context.Context, c clock.Clock, peer func(client, server string) string) (External, error)

// replicaOfConnection returns the name of the replica that opened a connection, or "". The proxy
// calls it while it accepts the connection.
func (p *Prover) replicaOfConnection(client, server string) string {
	for _, r := range p.running() {
		if r.process.Owns(client, server) {
			return r.process.Name()
		}
	}
	return ""
}

// externalState is the external system as a run found it.
type externalState struct {
	open, secret map[string]string // values that the scenario may refer to, by name
	preexisting  map[history.ExternalThing]bool
	// requestsBefore is the number of requests before the run.
	requestsBefore int
}

// snapshotExternal records the external system at the start of a run: its values, its things and
// the number of earlier requests.
func (ex *execution) snapshotExternal(ctx context.Context, s scenario.Scenario) error {
	wanted, err := s.Values()
	if err != nil {
		return err
	}
	ex.preexisting = map[history.ExternalThing]bool{}
	if x := ex.prover.external; x != nil {
		ex.open, ex.secret = x.Values()
		x.Proxy().Forget()
		ex.requestsBefore = len(x.Proxy().Journal().Requests)
		there, err := x.Look(ctx)
		if err != nil {
			return fmt.Errorf("looking at what is outside: %w", err)
		}
		for _, thing := range there {
			ex.preexisting[thing] = true
		}
	}
	known := ex.placeholders()
	for _, name := range wanted {
		if _, known := known[name]; !known {
			return fmt.Errorf("nothing outside the cluster has the value {%s}; the subject says what there is", name)
		}
	}
	return nil
}

func (ex *execution) placeholders() map[string]string {
	all := maps.Clone(ex.names)
	maps.Copy(all, ex.open)
	maps.Copy(all, ex.secret)
	return all
}

// recordExternal adds this run's external things to a checkpoint. Earlier runs may have left
// others.
func (ex *execution) recordExternal(ctx context.Context, m *history.Checkpoint) error {
	x := ex.prover.external
	if x == nil {
		return nil
	}
	there, err := x.Look(ctx)
	if err != nil {
		return fmt.Errorf("looking at what is outside: %w", err)
	}
	m.Listed = true
	m.Things = slices.DeleteFunc(there, func(thing history.ExternalThing) bool { return ex.preexisting[thing] })
	return nil
}

// externalRequests returns the requests to the external system since the run began.
func (ex *execution) externalRequests() []fault.ProxiedRequest {
	if ex.prover.external == nil {
		return nil
	}
	return ex.prover.external.Proxy().Journal().Requests[ex.requestsBefore:]
}

// externalCalls returns the requests to the external system as calls of a history. The history's
// requests to the API server place them among the revisions.
func (ex *execution) externalCalls(h *history.History) *history.History {
	if ex.prover.external == nil {
		return &history.History{}
	}
	added := &history.History{Recorded: []history.Source{history.External}}
	for _, r := range ex.externalRequests() {
		call, about := ex.prover.external.Read(r)
		if !about {
			continue
		}
		call.ID, call.Replica, call.Delivered = strconv.Itoa(r.ID), r.Peer, !r.Delivered.IsZero()
		call.Began, call.Ended = r.Received, r.Answered
		if r.Answered.IsZero() {
			call.Ended = r.Done // when the client gave up
		}
		switch {
		case r.Forwarded.IsZero():
			call.Outcome = history.Failed
		case r.Status == 0:
			call.Outcome = history.Lost
		}
		call.RevisionRange = h.Neighbours(call.Began, call.Ended)
		added.Calls = append(added.Calls, call)
	}
	return added
}
