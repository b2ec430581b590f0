// Package row is what the checks of the gate find: one row for each thing that
// was compared between two checkouts.
package row

import "leasehold.dev/test/performance/stage"

// Row is one thing that was compared.
type Row struct {
	// ID names it for ever, as in writes/tenant.create/patch namespaces. What a change
	// may make worse it says by the beginning of an ID, see Allowed.
	ID string
	// Base and Head are what was found in each, with units; empty where it is not.
	Base, Head string
	Verdict    Verdict
	// Reason says why the verdict is not Same, and what to do about it if it is Worse.
	Reason string
}

// Verdict is what became of it.
type Verdict string

// The verdicts. Worse stops a change, and so does Unclear, which nobody can read.
const (
	Same    Verdict = "same"
	Better  Verdict = "better"
	New     Verdict = "new"     // there is nothing to compare it with
	Gone    Verdict = "gone"    // and it does no harm that it is
	Allowed Verdict = "allowed" // it is worse, and the change says that and why
	Worse   Verdict = "worse"
	Unclear Verdict = "unclear" // it is not the same twice, so nothing can be said
)

// Pair is what is compared: two checkouts with their programs built.
type Pair struct {
	Base, Head stage.Checkout
	// Bench is for measuring either; its Checkout is empty.
	Bench stage.Bench
}
