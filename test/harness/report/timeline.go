// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

//go:embed timeline.html
var timelineText string

var timeline = template.Must(template.New("timeline").Parse(timelineText))

// page is the data of the template.
type page struct {
	*Run
	Title     string
	Replicas  []member
	Broken    []brokenPromise
	Judged    []verdictRow
	Overview  overview
	Rows      []*row
	Writes    int
	Asides    int
	Happened  []string
	Files     []string
	From, To  string
	Condition string
	writer    *timelineWriter
}

// member is a replica in the legend and in the heads of columns.
type member struct{ Lane, Name, Short, Tail string }

// brokenPromise is a broken promise with all its violations.
type brokenPromise struct {
	invariant.Verdict
	Sites []*violationSite
	// Quoted means that an earlier row has quoted the promise.
	Quoted bool
}

// sitesShown is the number of violations of an invariant at the head of the page before the rest is
// expanded.
const sitesShown = 4

// First returns the violations that are shown at once.
func (a brokenPromise) First() []*violationSite { return a.Sites[:min(sitesShown, len(a.Sites))] }

// More returns the others.
func (a brokenPromise) More() []*violationSite { return a.Sites[min(sitesShown, len(a.Sites)):] }

// verdictRow is a line of the table of verdicts.
type verdictRow struct {
	invariant.Verdict
	Must bool
}

// WriteTimeline writes a self-contained page for readers without knowledge of the operator or the harness.
func (r *Run) WriteTimeline(w io.Writer) error {
	sites := violationSitesOf(r.Verdicts)
	s := newTimelineWriter(r, sites)
	p := page{Run: r, Title: r.Scenario, Overview: s.overview(sites), Rows: s.rows, writer: s,
		Condition: conditionOf(r.Result)}
	if r.Fault != "" {
		p.Title += ", " + r.Fault
	}
	for _, name := range s.replicas {
		p.Replicas = append(p.Replicas, member{s.laneOf(name), name, s.short(name), strings.TrimPrefix(name, s.prefix)})
	}
	for _, v := range r.Verdicts {
		p.Judged = append(p.Judged, verdictRow{v, slices.Contains(r.Invariants, v.Invariant)})
		if v.Result != invariant.Broken {
			continue
		}
		a := brokenPromise{Verdict: v}
		for _, site := range sites {
			if site.Invariant == v.Invariant {
				a.Sites = append(a.Sites, site)
			}
		}
		p.Broken = append(p.Broken, a)
	}
	for _, row := range s.rows {
		if row.Number > 0 {
			p.Writes++
		}
		if row.Aside {
			p.Asides++
		}
	}
	for _, f := range r.Faults {
		p.Happened = append(p.Happened, faultSummary(s, f))
	}
	p.From, p.To = s.began.UTC().Format(time.DateTime), s.ended.UTC().Format(time.DateTime)
	p.Files = []string{verdictsFile, objectsFile, auditFile, caseFile, historyFile, replayFile}
	for i := range r.References {
		p.Files = append(p.Files, fmt.Sprintf(cleanFiles, i+1))
	}
	if err := timeline.Execute(w, p); err != nil {
		return fmt.Errorf("drawing the timeline: %w", err)
	}
	return nil
}

// conditionOf describes a result in a sentence.
func conditionOf(r invariant.Result) string {
	return map[invariant.Result]string{
		invariant.Held:          "All invariants held.",
		invariant.Broken:        "The operator broke an invariant.",
		invariant.Inconclusive:  "No violation was found, but an invariant that the scenario requires could not be judged.",
		invariant.Void:          "The fault was not injected, so the run proves nothing.",
		invariant.NotApplicable: "The fault cannot happen to this operator, so the run proves nothing.",
	}[r]
}

func faultSummary(s *timelineWriter, f history.FaultRecord) string {
	if f.Happened == 0 {
		return "It was not injected: " + f.Detail + "."
	}
	text := fmt.Sprintf("It was injected %s after the start", strings.TrimPrefix(s.since(f.Began), "+"))
	if f.Replica != "" {
		text += ", at " + s.short(f.Replica)
	}
	if detail := f.String(); detail != "" {
		text += ": " + detail
	}
	return strings.TrimRight(text, ".") + "."
}

// Since formats a time in seconds since the start.
func (p page) Since(at time.Time) string { return strings.TrimSuffix(p.writer.since(at), " s") }

// Who returns the name of a lane's process.
func (p page) Who(lane string) string { return p.writer.laneName(lane) }

// Here returns the promises whose violations this row shows in full.
func (p page) Here(r *row) []brokenPromise {
	var here []brokenPromise
	for _, a := range p.Broken {
		first := slices.IndexFunc(p.Rows, func(row *row) bool {
			return slices.ContainsFunc(a.Sites, func(site *violationSite) bool { return site.At == row.ID && row.ID != "" })
		})
		a.Quoted = first >= 0 && p.Rows[first] != r
		a.Sites = slices.DeleteFunc(slices.Clone(a.Sites), func(site *violationSite) bool { return site.At != r.ID })
		if len(a.Sites) > 0 {
			here = append(here, a)
		}
	}
	return here
}

// Elsewhere returns the violations that refer to the row and that another row shows in full.
func (p page) Elsewhere(r *row) []*violationSite {
	return slices.DeleteFunc(slices.Clone(r.Sites), func(site *violationSite) bool { return site.At == r.ID })
}

// NotFound reports whether a promise has violations without a row.
func (p page) NotFound(a brokenPromise) bool {
	return slices.ContainsFunc(a.Sites, func(site *violationSite) bool { return site.At == "" })
}
