// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"

	"leasehold.dev/test/harness/invariant"
)

// violationSite is a violation with the rows that show it.
type violationSite struct {
	Number int // from 1
	invariant.Verdict
	Violation invariant.Violation
	// Rows are the events that the violation refers to. At is the ID of the first, which shows it
	// in full. Both are empty without an event, such as for an object that was never created.
	Rows []*row
	At   string
}

// violationSitesOf returns the sites of all verdicts.
func violationSitesOf(verdicts []invariant.Verdict) []*violationSite {
	var sites []*violationSite
	for _, v := range verdicts {
		for _, violation := range v.Violations {
			sites = append(sites, &violationSite{Number: len(sites) + 1, Verdict: v, Violation: violation})
		}
	}
	return sites
}

// locate finds the rows that the violation refers to: requests and calls first, then revisions that
// none of these requests stored, then checkpoints.
func (p *violationSite) locate(rows []*row) {
	stored := map[uint64]bool{}
	for _, r := range rows {
		switch {
		case r.request != nil && p.refersTo(invariant.HistoryRef{Request: r.request.ID}):
			stored[r.request.To] = true
			p.addRow(r)
		case r.call != nil && p.refersTo(invariant.HistoryRef{Call: r.call.ID}):
			p.addRow(r)
		}
	}
	for _, reference := range p.Violation.References {
		if reference.Revision == 0 || stored[reference.Revision] {
			continue
		}
		for _, r := range rows {
			if r.request == nil || !r.request.Done() {
				continue
			}
			if revision, exact := r.request.Exact(); exact && revision == reference.Revision {
				p.addRow(r)
			}
		}
	}
	for _, r := range rows {
		if r.checkpoint != nil && p.refersTo(invariant.HistoryRef{Checkpoint: r.checkpoint.Name}) {
			p.addRow(r)
		}
	}
	if len(p.Rows) > 0 {
		p.At = p.Rows[0].ID
	}
}

func (p *violationSite) refersTo(r invariant.HistoryRef) bool {
	return r != (invariant.HistoryRef{}) && slices.Contains(p.Violation.References, r)
}

func (p *violationSite) addRow(r *row) {
	if slices.Contains(p.Rows, r) {
		return
	}
	p.Rows = append(p.Rows, r)
	r.Sites = append(r.Sites, p)
	r.Aside = false
}
