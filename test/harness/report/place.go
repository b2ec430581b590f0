package report

import (
	"slices"
	"strconv"
	"strings"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// place is where a promise was broken.
type place struct {
	Number int // from 1
	invariant.Verdict
	Name   string // of the invariant, a word or two
	Breach string
	// Rows are what the breach names, in the order in which it does; At is the first
	// of them, where it is told in full. Both are empty if it names nothing that
	// happened, as of an object that never came.
	Rows []*row
	At   string
}

// placesOf are those of all verdicts.
func placesOf(verdicts []invariant.Verdict) []*place {
	var places []*place
	for _, v := range verdicts {
		for _, breach := range v.Breaches {
			places = append(places, &place{Number: len(places) + 1, Verdict: v, Name: nameOf(v.Invariant), Breach: breach})
		}
	}
	return places
}

// nameOf is the name of an invariant; "" of one that is not there any more.
func nameOf(id string) string {
	for _, i := range invariant.All() {
		if i.ID == id {
			return i.Name
		}
	}
	return ""
}

// find looks up what the breach names: requests in their own words, then versions
// that none of those has, and marks.
func (p *place) find(rows []*row) {
	spoken := map[history.Span]bool{}
	for _, r := range rows {
		switch {
		case r.request != nil && strings.Contains(p.Breach, r.request.String()):
			spoken[r.request.Span] = true
			p.note(r)
		case r.call != nil && strings.Contains(p.Breach, r.call.String()):
			p.note(r)
		}
	}
	for _, span := range history.SpansIn(p.Breach) {
		if _, exact := span.Exact(); !exact || spoken[span] {
			continue
		}
		for _, r := range rows {
			if r.request != nil && r.request.Done() && r.request.Span == span {
				p.note(r)
			}
		}
	}
	for _, r := range rows {
		if r.mark != nil && strings.Contains(p.Breach, strconv.Quote(r.mark.Name)) {
			p.note(r)
		}
	}
	if len(p.Rows) > 0 {
		p.At = p.Rows[0].ID
	}
}

func (p *place) note(r *row) {
	if slices.Contains(p.Rows, r) {
		return
	}
	p.Rows = append(p.Rows, r)
	r.Places = append(r.Places, p)
	r.Aside = false
}
