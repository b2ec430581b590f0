// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

var (
	things = history.Resource{Group: "example.com", Resource: "things"}
	lease  = history.Key{Resource: history.Leases, Namespace: "system", Name: "leader"}
	aThing = history.Key{Resource: things, Namespace: "ns", Name: "t"}
)

func at(ms int) time.Time {
	return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// teller makes a history: each request is a tenth of a second after the one before.
type teller struct {
	history.History
	version uint64
	ms      int
}

func (s *teller) request(who, verb string, key history.Key, effect history.Effect,
	object map[string]any) *history.Request {
	s.ms += 100
	r := history.Request{
		ID: fmt.Sprint(s.ms), User: who, Verb: verb, Key: key, Effect: effect, Code: 200, Body: true, NeedsUID: "u1",
		NeedsVersion: "1",
		Received:     at(s.ms), Answered: at(s.ms), RevisionRange: history.RevisionRange{From: s.version, To: s.version + 1},
	}
	if len(who) == len("op-0") {
		r.User, r.Replica = "op", who
	}
	if effect == history.Stored {
		s.version++
		r.RevisionRange, r.UID = history.At(s.version), types.UID(key.Name+"-uid")
		o := &unstructured.Unstructured{Object: object}
		o.SetName(key.Name)
		o.SetUID(r.UID)
		s.Versions = append(s.Versions,
			history.Version{Key: key, UID: r.UID, RevisionRange: r.RevisionRange, At: r.Answered, Object: o})
	}
	s.Requests = append(s.Requests, r)
	return &s.Requests[len(s.Requests)-1]
}

func (s *teller) holds(who string) {
	s.request(who, "update", lease, history.Stored,
		map[string]any{"kind": "Lease", "spec": map[string]any{"holderIdentity": who + "_1"}})
}

func (s *teller) rests(name string, converged bool) {
	m := history.Checkpoint{Name: name, Converged: converged, Began: at(s.ms),
		RevisionRange: history.RevisionRange{From: s.version}}
	s.holds("op-1")
	s.ms += 1900
	m.Ended, m.To = at(s.ms), s.version+1
	s.Checkpoints = append(s.Checkpoints, m)
}

func thing(spec string, condition ...any) map[string]any {
	o := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "spec": map[string]any{"text": spec}}
	if len(condition) > 0 {
		o["status"] = map[string]any{"conditions": condition}
	}
	return o
}

func ready(status string) map[string]any {
	return map[string]any{"type": "Ready", "status": status, "reason": "Is" + status}
}

// split is a run in which replica 0 is killed and restarted, and writes while replica 1 leads.
func split(t *testing.T) *Run {
	t.Helper()
	s := &teller{version: 100}
	s.Recorded = []history.Source{history.Audit, history.Watch, history.Processes}
	s.holds("op-0")
	s.request("alice", "create", aThing, history.Stored, thing("<b>hostile</b>")).Made = true
	s.request("op-0", "get", aThing, history.Read, nil)
	s.request("op-0", "patch", aThing, history.Stored, thing("<b>hostile</b>", ready("False")))
	s.holds("op-0")
	s.holds("op-0")
	s.request("system:kube-controller-manager", "create", history.Key{Resource: history.Resource{Resource: "configmaps"},
		Name: "ca"}, history.Stored, map[string]any{"kind": "ConfigMap"})
	s.Faults = []history.FaultRecord{{Name: "crash-after-write", Replica: "op-0", Happened: 1, Detail: "PATCH /things/t", Began: at(s.ms),
		Ended: at(s.ms + 1)}}
	s.ms += 500
	s.holds("op-1")
	s.request("op-0", "patch", aThing, history.Stored, thing("<b>hostile</b>", ready("True"))).Subresource = "status"
	conflict := s.request("op-1", "patch", aThing, history.Refused, nil)
	conflict.Code, conflict.Reason = 409, "Conflict"
	s.rests("end", true)
	s.Replicas = []history.Process{
		{Name: "op-0", Started: at(-1000), Ended: at(701), Killed: true, Exit: -1},
		{Name: "op-0", Started: at(900)},
		{Name: "op-1", Started: at(-1000)},
	}
	r := &Run{
		Outcome: invariant.Outcome{
			Name: "001-split", Scenario: "life", Fault: "crash-after-write", Plan: "life:crash-after-write:PATCH:/things/{t}:1",
			Words:  "a replica is killed",
			Replay: "make prove SEED=7 PLAN='life:crash-after-write:PATCH:/things/{t}:1'", Faults: s.Faults, Took: 3 * time.Second,
			Invariants: []string{"single-writer"},
		},
		Seed: 7,
		Contract: invariant.Contract{Users: []string{"op"}, Lease: lease,
			Kinds: []invariant.Kind{{Resource: things, Ready: "Ready"}}},
		History: &s.History, References: []*history.History{{Recorded: []history.Source{history.Watch}}},
		AuditLog: []byte("{}\n"),
	}
	r.History.Sort()
	r.Verdicts, r.Result = r.Judge()
	g := NewWithT(t)
	g.Expect(r.Result).To(Equal(invariant.Broken))
	g.Expect(single(r).Violations).To(HaveLen(1))
	return r
}

// single is the verdict about the single writer.
func single(r *Run) invariant.Verdict {
	for _, v := range r.Verdicts {
		if v.Invariant == invariant.SingleWriter.Name {
			return v
		}
	}
	return invariant.Verdict{}
}
