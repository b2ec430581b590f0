// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"slices"

	"leasehold.dev/test/harness/history"
)

// Violation is one place where a promise was broken.
type Violation struct {
	// Message describes the violation to a person. Programs use the references.
	Message string `json:"message"`
	// References are the requests, calls, revisions, checkpoints and objects that it is about.
	References []HistoryRef `json:"references,omitempty"`
	// Objects are the objects that it is about, by the scenario's names.
	Objects []string `json:"objects,omitempty"`
	// Lost means that an object of a user was deleted, and that no step deletes it.
	Lost bool `json:"lost,omitempty"`
	// Signature is the message without what differs from run to run: violations of two runs with
	// the same signature are taken for the same.
	Signature string `json:"signature,omitempty"`
}

// HistoryRef names one thing in a history. One of its fields is set.
type HistoryRef struct {
	// Request and Call are IDs.
	Request string `json:"request,omitempty"`
	Call    string `json:"call,omitempty"`
	// Revision is the version with which an object was stored or deleted.
	Revision uint64 `json:"revision,omitempty"`
	// Checkpoint is a name.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Object is an object in a wrong state, as the scenario calls it. It may not have existed.
	Object string `json:"object,omitempty"`
}

func (v *Violation) refer(references ...HistoryRef) *Violation {
	v.References = append(v.References, references...)
	return v
}

func (v *Violation) request(r history.Request) *Violation { return v.refer(requestAndRevision(r)...) }

func (v *Violation) call(c history.Call) *Violation { return v.refer(HistoryRef{Call: c.ID}) }

func (v *Violation) revision(r history.RevisionRange) *Violation { return v.refer(revisionOf(r)...) }

func (v *Violation) checkpoint(c history.Checkpoint) *Violation {
	return v.refer(HistoryRef{Checkpoint: c.Name})
}

func (v *Violation) object(name string) *Violation { return v.refer(HistoryRef{Object: name}) }

// revisionOf refers to a revision, if it is known exactly.
func revisionOf(r history.RevisionRange) []HistoryRef {
	revision, exact := r.Exact()
	if !exact {
		return nil
	}
	return []HistoryRef{{Revision: revision}}
}

// requestAndRevision refers to a request and to the revision that it stored.
func requestAndRevision(r history.Request) []HistoryRef {
	return append([]HistoryRef{{Request: r.ID}}, revisionOf(r.RevisionRange)...)
}

// maxListed bounds the objects that FirstOfEach names.
const maxListed = 20

// FirstOfEach returns the first violation of each object; its message counts the others.
func FirstOfEach(all []Violation) (first []Violation) {
	at, more := map[string]int{}, map[string]int{}
	for _, v := range all {
		object := append(slices.Clone(v.Objects), v.Message)[0]
		if _, listed := at[object]; listed {
			more[object]++
			continue
		}
		at[object], first = len(first), append(first, v)
	}
	for object, n := range more {
		first[at[object]].Message += fmt.Sprintf("; and %d more about %s, in verdicts.txt", n, object)
	}
	if n := len(first) - maxListed; n > 0 {
		first = append(first[:maxListed], Violation{Message: fmt.Sprintf("%d more objects, in verdicts.txt", n)})
	}
	return first
}
