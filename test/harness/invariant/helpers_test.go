// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

const (
	finalizer = "example.com/tidy"
	madeFor   = "example.com/for"
)

var (
	things = history.Resource{Group: "example.com", Resource: "things"}
	parts  = history.Resource{Resource: "configmaps"}
	rooms  = history.Resource{Resource: "namespaces"}
	events = history.Resource{Group: "events.k8s.io", Resource: "events"}
	lease  = history.Key{Resource: history.Leases, Namespace: "system", Name: "leader"}
)

// operator reconciles things: each has parts that it controls, rooms that carry its
// UID, and one thing outside.
func operator() invariant.Contract {
	return invariant.Contract{
		Users: []string{"op"}, Lease: lease, AnyReplica: []history.Resource{events},
		Kinds: []invariant.Kind{{
			Resource: things, Finalizer: finalizer, Ready: "Ready", Waiting: []string{"NeedsYou"}, External: true,
			Kept:    &invariant.Field{Path: "spec.policy", Is: "Keep"},
			Managed: &invariant.Field{Path: "spec.manage", Is: "yes"},
			Children: []invariant.Child{
				{Resource: parts, Controlled: true},
				{Resource: rooms, Annotation: madeFor, Awaited: true},
			},
		}},
		Limits: invariant.Limits{
			Quiet: metav1.Duration{Duration: time.Second}, Unchanged: 2, PerGeneration: 4,
			Grace: metav1.Duration{Duration: 10 * time.Second},
		},
	}
}

// script builds a history step by step; each step takes a tenth of a second.
type script struct {
	history.History
	version uint64
	now     time.Time
}

// play builds a history of the steps, with replica a as the leader.
func play(steps ...step) *history.History {
	s := &script{version: 100, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.Recorded = []history.Source{history.Audit, history.Watch, history.External, history.Processes}
	all(holds("a"), all(steps...)).record(s)
	return &s.History
}

// step is a type of its own, so that one step can be recorded twice.
type step struct{ record func(*script) }

// all are steps that are done as one.
func all(steps ...step) step {
	return step{func(s *script) {
		for _, step := range steps {
			step.record(s)
		}
	}}
}

func (s *script) tick() { s.now = s.now.Add(100 * time.Millisecond) }

// request is one of a replica ("a", "b"), or of a user (any longer name).
func (s *script) request(who, verb string, key history.Key) history.Request {
	s.tick()
	r := history.Request{ID: "request-" + s.now.Format("05.0"), User: who, Verb: verb, Key: key, Received: s.now,
		Answered: s.now, Code: 200, Body: true, RevisionRange: history.RevisionRange{From: s.version, To: s.version + 1}}
	if len(who) == 1 {
		r.User, r.Replica = "op", who
	}
	return r
}

func key(o *unstructured.Unstructured) history.Key {
	of := map[string]history.Resource{"Thing": things, "ConfigMap": parts, "Secret": secrets, "Namespace": rooms,
		"Lease": history.Leases, "Pod": {Resource: "pods"}}[o.GetKind()]
	return history.Key{Resource: of, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// writes stores the object. It is made if its UID has not been there before.
func writes(who string, o *unstructured.Unstructured, change ...func(*history.Request)) step {
	return step{func(s *script) {
		r := s.request(who, "patch", key(o))
		s.version++
		r.RevisionRange, r.Effect, r.UID, r.Made, r.NeedsVersion = history.At(s.version), history.Stored,
			o.GetUID(), true, "1"
		for _, v := range s.Versions {
			r.Made = r.Made && v.UID != o.GetUID()
		}
		for _, f := range change {
			f(&r)
		}
		s.Requests = append(s.Requests, r)
		if r.Done() {
			s.Versions = append(s.Versions,
				history.Version{Key: r.Key, UID: r.UID, RevisionRange: r.RevisionRange, At: s.now, Object: o.DeepCopy()})
		}
	}}
}

// ends takes the object away.
func ends(who string, o *unstructured.Unstructured, change ...func(*history.Request)) step {
	return step{func(s *script) {
		r := s.request(who, "delete", key(o))
		s.version++
		r.RevisionRange, r.Effect, r.UID, r.NeedsUID = history.At(s.version), history.Deleted, o.GetUID(), o.GetUID()
		for _, f := range change {
			f(&r)
		}
		s.Requests = append(s.Requests, r)
		s.Versions = append(s.Versions, history.Version{Key: r.Key, UID: r.UID, RevisionRange: r.RevisionRange, At: s.now,
			Gone: true, Object: o.DeepCopy()})
	}}
}

// asks records a request that stores nothing.
func asks(who, verb string, o *unstructured.Unstructured, effect history.Effect, code int,
	change ...func(*history.Request)) step {
	return step{func(s *script) {
		r := s.request(who, verb, key(o))
		r.Effect, r.Code, r.UID = effect, code, o.GetUID()
		for _, f := range change {
			f(&r)
		}
		s.Requests = append(s.Requests, r)
	}}
}

// holds gives the Lease to a replica; "" releases it.
func holds(who string) step {
	holder := who
	if who != "" {
		holder += "_1"
	}
	return writes(cmp.Or(who, "a"), leader(map[string]any{"holderIdentity": holder}))
}

// leader is the Lease.
func leader(spec map[string]any) *unstructured.Unstructured {
	return object("Lease", "leader", "uid-lease", func(o *unstructured.Unstructured) {
		o.SetNamespace("system")
		o.Object["spec"] = spec
	})
}

// calls records a request of replica a to an external system, with its answer.
func calls(action history.Action, thing string, owner types.UID, outcome history.CallOutcome,
	change ...func(*history.Call)) step {
	return step{func(s *script) {
		s.tick()
		c := history.Call{Replica: "a", Action: action, Thing: thing, Owner: owner, Outcome: outcome, Delivered: true,
			Began: s.now, RevisionRange: history.RevisionRange{From: s.version, To: s.version + 1}}
		s.tick()
		c.Ended = s.now
		for _, f := range change {
			f(&c)
		}
		s.Calls = append(s.Calls, c)
	}}
}

// rests is a checkpoint of two seconds in which the Lease is renewed and the steps occur.
func rests(name string, steps ...step) step {
	return step{func(s *script) {
		m := history.Checkpoint{Name: name, Converged: true, Began: s.now,
			RevisionRange: history.RevisionRange{From: s.version}, Listed: true}
		all(holds("a"), all(steps...)).record(s)
		s.now = m.Began.Add(2 * time.Second)
		m.Ended, m.To = s.now, s.version+1
		s.Checkpoints = append(s.Checkpoints, m)
	}}
}

// delayed records a fault that makes what a replica sends late, until a second.
func delayed(replica string, began, until float64) step {
	return changes(func(s *script) {
		s.Faults = []history.FaultRecord{
			{Name: "leader-pause", Happened: 1, Replica: replica, Began: second(began), Overtaken: second(until)}}
	})
}

// mark changes the last checkpoint.
func mark(change func(*history.Checkpoint)) step {
	return changes(func(s *script) { change(&s.Checkpoints[len(s.Checkpoints)-1]) })
}

// hasty precedes the last checkpoint by several changes of one object.
func hasty() step {
	return mark(func(m *history.Checkpoint) { m.Hasty = true })
}

// busy makes the last checkpoint one at which the operator is not done: what it has made by then proves nothing.
func busy() step {
	return mark(func(m *history.Checkpoint) { m.Busy = true })
}

// like makes the last checkpoint one that has to have the state of an earlier one.
func like(name string) step {
	return mark(func(m *history.Checkpoint) { m.Like = name })
}

// finds records the external objects at the last checkpoint, as name and owner.
func finds(things ...history.ExternalThing) step {
	return mark(func(m *history.Checkpoint) { m.Things = things })
}

// rejected is a step that the API server did not accept; "" is the cleanup.
func rejected(name string) step {
	return step{func(s *script) {
		s.tick()
		s.Rejections = append(s.Rejections, history.Rejection{Step: name, Object: "Thing t", Message: "denied", At: s.now})
	}}
}

func changes(f func(*script)) step { return step{f} }

func without(sources ...history.Source) step {
	return step{func(s *script) {
		s.Recorded = slices.DeleteFunc(s.Recorded, func(have history.Source) bool { return slices.Contains(sources, have) })
	}}
}

func object(kind, name, uid string, mutate ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind}}
	o.SetName(name)
	o.SetUID(types.UID(uid))
	for _, f := range mutate {
		f(o)
	}
	return o
}

// thing is a Thing of generation 1, with UID u1 unless it is changed.
func thing(mutate ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return object("Thing", "t", "u1", append([]func(*unstructured.Unstructured){func(o *unstructured.Unstructured) {
		o.SetNamespace("ns")
		o.SetGeneration(1)
		o.Object["spec"] = map[string]any{"manage": "yes"}
	}}, mutate...)...)
}

func held(o *unstructured.Unstructured) { o.SetFinalizers([]string{finalizer}) }
func heldByOthers(o *unstructured.Unstructured) {
	o.SetFinalizers(append(o.GetFinalizers(), "example.com/other"))
}
func orphaning(o *unstructured.Unstructured) {
	o.SetFinalizers(append(o.GetFinalizers(), metav1.FinalizerOrphanDependents))
}
func leaving(o *unstructured.Unstructured) {
	at := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 5, 0, time.UTC))
	o.SetDeletionTimestamp(&at)
}
func kept(o *unstructured.Unstructured)      { o.Object["spec"].(map[string]any)["policy"] = "Keep" }
func unmanaged(o *unstructured.Unstructured) { o.Object["spec"].(map[string]any)["manage"] = "no" }
func named(name, uid string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.SetName(name)
		o.SetUID(types.UID(uid))
	}
}
func generation(g int64) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetGeneration(g) }
}

// says sets the condition Ready, with a second of the script's first minute as its time.
func says(status, reason string, observed int64, second string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{"observedGeneration": observed, "conditions": []any{map[string]any{
			"type": "Ready", "status": status, "reason": reason, "observedGeneration": observed,
			"lastTransitionTime": "2030-01-01T00:00:" + second + "Z",
		}}}
	}
}

var ready = says("True", "Fine", 1, "01")

// owned adds owner references to an object, the first of which is the controller.
func owned(uids ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		var references []metav1.OwnerReference
		for i, uid := range uids {
			references = append(references, metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "t",
				UID: types.UID(uid), Controller: new(i == 0)})
		}
		o.SetOwnerReferences(references)
	}
}

// part is a ConfigMap that the Thing u1 controls.
func part(name, uid string, mutate ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return object("ConfigMap", name, uid, append([]func(*unstructured.Unstructured){func(o *unstructured.Unstructured) {
		o.SetNamespace("ns")
		owned("u1")(o)
	}}, mutate...)...)
}

// room is a Namespace that carries the UID of the Thing u1.
func room(name, uid string) *unstructured.Unstructured {
	return object("Namespace", name, uid, func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{madeFor: "u1"})
	})
}
