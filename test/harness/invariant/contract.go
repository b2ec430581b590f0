// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
)

// Contract describes the operator that is judged.
type Contract struct {
	// Users are the user names of its replicas.
	Users []string `json:"users"`
	// Lease is the Lease of the leader election.
	Lease history.Key `json:"lease"`
	// AnyReplica are resources that every replica may write, even while it does not lead, such as
	// the events of an election.
	AnyReplica []history.Resource `json:"anyReplica,omitempty"`
	Kinds      []Kind             `json:"kinds"`
	// Watched are resources to record besides the kinds and their children.
	Watched []history.Resource `json:"watched,omitempty"`
	// Warm: a replica reports that it is ready only after its caches of the kinds and their
	// children have synced, even while it does not lead (a hot standby).
	Warm bool `json:"warm,omitempty"`
	// Fenced: a late write of a former leader is refused. The election of client-go does not
	// promise that. If left out, such a write is judged by its effect.
	Fenced bool   `json:"fenced,omitempty"`
	Limits Limits `json:"limits,omitzero"`
	// Except are invariants that the operator may break.
	Except []Exception `json:"except,omitempty"`
}

// Exception is an invariant that is evaluated and reported, and does not count.
type Exception struct {
	// Invariant is the name of the invariant, such as truthful-readiness.
	Invariant string `json:"invariant"`
	// Reason appears in the report.
	Reason string `json:"reason"`
}

// Kind is a kind of object that the operator reconciles.
type Kind struct {
	history.Resource
	// Finalizer is the finalizer that the operator sets on the object.
	Finalizer string `json:"finalizer,omitempty"`
	// Ready is the type of the condition that reports the desired state.
	Ready string `json:"ready,omitempty"`
	// Waiting are reasons of Ready with which a deletion waits for a person.
	Waiting []string `json:"waiting,omitempty"`
	// Kept selects the objects whose children and external objects are not deleted with them, as
	// with a reclaim policy Retain.
	Kept     *Field  `json:"kept,omitempty"`
	Children []Child `json:"children,omitempty"`
	// External: each object has one outside the cluster, such as a bucket.
	External bool `json:"external,omitempty"`
	// Managed limits External to some objects. If left out, External applies to all.
	Managed *Field `json:"managed,omitempty"`
}

// Field is a condition on a field of an object.
type Field struct {
	// Path is the path of the field, such as "spec.deletionPolicy".
	Path string `json:"path"`
	// Is is the value that the field at path must have.
	Is string `json:"is"`
}

// Limits are figures that differ from operator to operator. Zero is no limit:
// the part of a promise that needs it is not judged.
type Limits struct {
	// Quiet is the shortest checkpoint judged for quiescence. If left out, each is.
	Quiet metav1.Duration `json:"quiet,omitzero"`
	// Unchanged is the maximum number of writes to an object, between two checkpoints, that
	// change nothing.
	Unchanged int `json:"unchanged,omitempty"`
	// PerGeneration limits the writes to an object of a kind per generation.
	PerGeneration int `json:"perGeneration,omitempty"`
	// Grace is the maximum time in which a replica has to stop.
	Grace metav1.Duration `json:"grace,omitzero"`
	// Late is the maximum delay of other namespaces during an attack from one.
	Late metav1.Duration `json:"late,omitzero"`
}

// on reports whether the field has its value.
func (f *Field) on(object *unstructured.Unstructured) bool {
	value, found, err := unstructured.NestedString(object.Object, strings.Split(f.Path, ".")...)
	return err == nil && found && value == f.Is
}

// keeps reports whether the children of an object may outlive it. A deletion with
// --cascade=orphan permits it too.
func (k Kind) keeps(life *history.Lifetime) bool {
	if slices.ContainsFunc(life.Versions, func(v history.Version) bool {
		return slices.Contains(v.Object.GetFinalizers(), metav1.FinalizerOrphanDependents)
	}) {
		return true
	}
	last := life.Last()
	return k.Kept != nil && last != nil && k.Kept.on(last.Object)
}

// manages reports whether the operator makes external things for an object.
func (k Kind) manages(v *history.Version) bool { return k.Managed == nil || k.Managed.on(v.Object) }

// ours reports whether the operator made a request.
func (b *judgement) ours(r history.Request) bool { return slices.Contains(b.Contract.Users, r.User) }

// electing reports whether a request is about the Lease, or anything else that a
// replica may write without leading.
func (b *judgement) electing(r history.Request) bool {
	return r.Key == b.Contract.Lease || slices.Contains(b.Contract.AnyReplica, r.Resource)
}

// writers returns the requests that stored each version.
func (b *judgement) writers() map[history.RevisionRange]history.Request {
	writers := map[history.RevisionRange]history.Request{}
	for _, r := range b.History.Requests {
		if _, exact := r.Exact(); exact && r.Done() {
			writers[r.RevisionRange] = r
		}
	}
	return writers
}

// Resources are those of the kinds and their children, each once.
func (o Contract) Resources() []history.Resource {
	var all []history.Resource
	add := func(r history.Resource) {
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	for _, k := range o.Kinds {
		add(k.Resource)
		for _, c := range k.Children {
			add(c.Resource)
		}
	}
	return all
}

// condition is one of an object's conditions, as far as it is judged.
type condition struct {
	status, reason, since string
	observed              int64
}

// conditions returns an object's conditions by type, and the types that are there
// twice.
func conditions(object *unstructured.Unstructured) (found map[string]condition, twice []string) {
	found = map[string]condition{}
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string { s, _ := fields[name].(string); return s }
		c := condition{status: text("status"), reason: text("reason"), since: text("lastTransitionTime")}
		c.observed, _ = fields["observedGeneration"].(int64)
		if _, known := found[text("type")]; known {
			twice = append(twice, text("type"))
		}
		found[text("type")] = c
	}
	return found, twice
}

// observed returns the generation that the status describes; 0 if it has none.
func observed(object *unstructured.Unstructured) int64 {
	generation, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return generation
}

// at returns the version of an object at the end of a checkpoint; nil if it did not exist.
func at(life *history.Lifetime, m history.Checkpoint) *history.Version {
	over := history.At(m.To)
	if life.End != nil && (m.To == 0 || life.End.Before(over)) {
		return nil
	}
	var last *history.Version
	for i := range life.Versions {
		if m.To == 0 || life.Versions[i].Before(over) {
			last = &life.Versions[i]
		}
	}
	return last
}
