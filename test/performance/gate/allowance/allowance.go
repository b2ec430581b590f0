// Package allowance is what a change says that it may make worse, and why.
package allowance

import (
	"fmt"
	"slices"
	"strings"

	"leasehold.dev/test/performance/gate/judge"
	"leasehold.dev/test/performance/gate/row"
)

// Trailer is the name of the trailer in a commit's message. Its value is the
// beginning of a row's ID, a colon and the reason.
const Trailer = "Gate-Allow"

// Allowance makes rows that are worse allowed.
type Allowance struct {
	// Beginning is what the IDs of the rows begin with.
	Beginning string
	// Reason is why they may be.
	Reason string
}

// Parse reads the values of trailers. What allows nothing, it says.
func Parse(values []string) (all []Allowance, notices []string) {
	for _, value := range values {
		beginning, reason, _ := strings.Cut(value, ": ")
		a := Allowance{Beginning: strings.TrimSpace(strings.TrimSuffix(beginning, ":")), Reason: strings.TrimSpace(reason)}
		if a.Beginning == "" || a.Reason == "" {
			notices = append(notices, fmt.Sprintf("`%s: %s` allows nothing: write `%s: <beginning of a row's ID>: <reason>`.", Trailer, value, Trailer))
			continue
		}
		all = append(all, a)
	}
	return all, notices
}

// Apply makes the rows that are worse and that the change speaks of allowed, with its
// reason. It says which allowances were not needed.
func Apply(all []Allowance, found []judge.Finding) (notices []string) {
	used := make([]bool, len(all))
	for _, f := range found {
		for i := range f.Rows {
			r := &f.Rows[i]
			n := slices.IndexFunc(all, func(a Allowance) bool { return strings.HasPrefix(r.ID, a.Beginning) })
			if r.Verdict == row.Worse && n >= 0 {
				used[n], r.Verdict, r.Reason = true, row.Allowed, all[n].Reason
			}
		}
	}
	for n, a := range all {
		if !used[n] {
			notices = append(notices, fmt.Sprintf("`%s: %s` was not needed: nothing whose ID begins so is worse.", Trailer, a.Beginning))
		}
	}
	return notices
}
