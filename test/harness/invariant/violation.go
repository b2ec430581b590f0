// SPDX-License-Identifier: Apache-2.0

package invariant

import "leasehold.dev/test/harness/history"

// Violation is one place where a promise was broken.
type Violation struct {
	// Message describes the violation to a person. Programs use the references.
	Message string `json:"message"`
	// References are the requests, calls, revisions, checkpoints and objects that it is about.
	References []HistoryRef `json:"references,omitempty"`
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
	// Object is an object as the scenario calls it, for a violation about one that was not there.
	Object string `json:"object,omitempty"`
}

func (v *Violation) refer(references ...HistoryRef) *Violation {
	v.References = append(v.References, references...)
	return v
}

func (v *Violation) request(r history.Request) *Violation { return v.refer(HistoryRef{Request: r.ID}) }

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
