package invariant

import "leasehold.dev/test/harness/history"

// Violation is one place where a promise was broken.
type Violation struct {
	// Message describes the violation to a person. Programs use the references.
	Message string `json:"message"`
	// References are the requests, calls, revisions, checkpoints and objects that it is about.
	References []Reference `json:"references,omitempty"`
	// Signature is the message without what differs from run to run: violations of two runs with
	// the same signature are taken for the same.
	Signature string `json:"signature,omitempty"`
}

// Reference names one thing in a history. One of its fields is set.
type Reference struct {
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

func (v *Violation) refer(references ...Reference) *Violation {
	v.References = append(v.References, references...)
	return v
}

func (v *Violation) request(r history.Request) *Violation { return v.refer(Reference{Request: r.ID}) }

func (v *Violation) call(c history.Call) *Violation { return v.refer(Reference{Call: c.ID}) }

func (v *Violation) revision(r history.RevisionRange) *Violation { return v.refer(revisionOf(r)...) }

func (v *Violation) checkpoint(c history.Checkpoint) *Violation {
	return v.refer(Reference{Checkpoint: c.Name})
}

func (v *Violation) object(name string) *Violation { return v.refer(Reference{Object: name}) }

// revisionOf refers to a revision, if it is known exactly.
func revisionOf(r history.RevisionRange) []Reference {
	revision, exact := r.Exact()
	if !exact {
		return nil
	}
	return []Reference{{Revision: revision}}
}
