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

	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// External is a system outside the cluster that a subject uses. All that replicas
// ask of it goes through one proxy: which of them it was is told by who opened the
// connection.
type External interface {
	// Proxy is where replicas find it.
	Proxy() *fault.Proxy
	// Values are what scenarios may refer to in braces, by name, such as
	// store.endpoint; secret are those that must not be written down.
	Values() (open, secret map[string]string)
	// Do makes a change as somebody else, past the proxy. It fails for a change that
	// it does not know.
	Do(ctx context.Context, change, thing string) error
	// Look says what is really there.
	Look(ctx context.Context) ([]history.Thing, error)
	// Read says what a request asked for, of what, for whom, and what became of it if
	// it was answered. false: it is about nothing that is judged.
	Read(r fault.Request) (history.Call, bool)
	// Refusal is the answer with one of the codes 403, 500 and 503 in its words.
	Refusal(code int) (fault.Answer, error)
	// Stop ends it.
	Stop() error
}

// StartExternal starts an external system. The clock is for its proxy; peer says
// which replica has opened a connection, by the addresses of both its ends.
type StartExternal func(ctx context.Context, c clock.Clock, peer func(client, server string) string) (External, error)

// owner is the name of the replica that has opened a connection between these addresses;
// "" if none has. It is asked while the connection is being accepted.
func (p *Prover) owner(client, server string) string {
	for _, r := range p.present() {
		if r.process.Owns(client, server) {
			return r.process.Name()
		}
	}
	return ""
}

// named is the replica of that name; nil if there is none.
func (p *Prover) named(name string) *replica {
	for _, r := range p.present() {
		if r.process.Name() == name {
			return r
		}
	}
	return nil
}

// outer is what a run knows of the outside.
type outer struct {
	open, secret map[string]string // values that the scenario may refer to, by name
	older        map[history.Thing]bool
	// before is how many requests there had been when the run began.
	before int
}

// meetExternal notes what is outside when a run begins: its values, what is there
// already, and how much was asked of it before.
func (t *trial) meetExternal(ctx context.Context, s scenario.Scenario) error {
	wanted, err := s.Values()
	if err != nil {
		return err
	}
	t.older = map[history.Thing]bool{}
	if x := t.prover.external; x != nil {
		t.open, t.secret = x.Values()
		x.Proxy().Forget()
		t.before = len(x.Proxy().Journal().Requests)
		there, err := x.Look(ctx)
		if err != nil {
			return fmt.Errorf("looking at what is outside: %w", err)
		}
		for _, thing := range there {
			t.older[thing] = true
		}
	}
	holes, err := t.holes.name(ctx, wanted)
	if err != nil {
		return err
	}
	if t.open = maps.Clone(t.open); t.open == nil {
		t.open = map[string]string{}
	}
	maps.Copy(t.open, holes)
	known := t.fillings()
	for _, name := range wanted {
		if _, known := known[name]; !known {
			return fmt.Errorf("nothing outside the cluster has the value {%s}; the subject says what there is", name)
		}
	}
	return nil
}

// fillings are what stands for the placeholders of the scenario.
func (t *trial) fillings() map[string]string {
	all := maps.Clone(t.names)
	maps.Copy(all, t.open)
	maps.Copy(all, t.secret)
	return all
}

// look is what is outside of this run's; others may have left something behind.
func (t *trial) look(ctx context.Context, m *history.Mark) error {
	x := t.prover.external
	if x == nil {
		return nil
	}
	there, err := x.Look(ctx)
	if err != nil {
		return fmt.Errorf("looking at what is outside: %w", err)
	}
	m.Looked = true
	m.Things = slices.DeleteFunc(there, func(thing history.Thing) bool { return t.older[thing] })
	return nil
}

// external does what a step changes outside.
func (t *trial) external(ctx context.Context, step scenario.Step) error {
	if t.prover.external == nil {
		return errors.New("the subject has nothing outside the cluster")
	}
	what, thing := step.Change()
	return t.prover.external.Do(ctx, what, thing)
}

// asked are the requests to what is outside since the run began.
func (t *trial) asked() (fault.Journal, []fault.Request) {
	if t.prover.external == nil {
		return fault.Journal{}, nil
	}
	journal := t.prover.external.Proxy().Journal()
	return journal, journal.Requests[t.before:]
}

// calls are the requests to what is outside as a history has them. What the history
// has of the API server says when they were.
func (t *trial) calls(h *history.History) *history.History {
	if t.prover.external == nil {
		return &history.History{}
	}
	journal, requests := t.asked()
	added := &history.History{Recorded: []history.Source{history.External}}
	for _, r := range requests {
		call, about := t.prover.external.Read(r)
		if !about {
			continue
		}
		call.ID, call.Replica, call.Delivered = strconv.Itoa(r.ID), journal.Peer(r), !r.Delivered.IsZero()
		call.Began, call.Ended = r.Received, ended(r)
		switch {
		case r.Forwarded.IsZero():
			call.Outcome = history.Failed
		case r.Status == 0:
			call.Outcome = history.Lost
		}
		call.Span = h.Around(call.Began, call.Ended)
		added.Calls = append(added.Calls, call)
	}
	return added
}

// ended is when it was settled what became of a call: at its answer, and of one
// without when it was given up. The client can have known no earlier than that.
func ended(r fault.Request) time.Time {
	if !r.Answered.IsZero() {
		return r.Answered
	}
	return r.Done
}

// observedCalls are what plans are derived from.
func (t *trial) observedCalls(h *history.History) []scenario.Call {
	normal := h.Normal()
	var all []scenario.Call
	_, requests := t.asked()
	for _, r := range requests {
		path := normal.Replace(pathOf(r))
		if path == pathOf(r) {
			continue // it is not about this run's
		}
		all = append(all, scenario.Call{Method: r.Method, Path: path, Changed: r.Mutating() && r.Committed(), Answered: r.Status != 0})
	}
	return all
}

// pathOf is a request's path with the names of its query's parameters.
func pathOf(r fault.Request) string {
	path := strings.TrimSuffix(r.Path, "/")
	if len(r.Query) == 0 {
		return path
	}
	return path + "?" + strings.Join(slices.Sorted(maps.Keys(r.Query)), "&")
}

// matchOf is what pathOf would say of the requests that a target is about.
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
