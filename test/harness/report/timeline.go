package report

import (
	"cmp"
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

// page is what the timeline shows.
type page struct {
	*Run
	Title     string
	Replicas  []member
	Broken    []accusation
	Judged    []judged
	Overview  overview
	Rows      []*row
	Writes    int
	Asides    int
	Happened  []string
	Files     []string
	From, To  string
	Condition string
	story     *story
}

// member is a replica, for the legend and the heads of columns.
type member struct{ Lane, Name, Short, Tail string }

// accusation is a promise that was broken, with all places.
type accusation struct {
	invariant.Verdict
	Name   string
	Places []*place
	// Again: it was quoted in full before.
	Again bool
}

// atOnce is how many places of a promise are told at the head of the page.
const atOnce = 4

// First are the places that are told at once, More the others.
func (a accusation) First() []*place { return a.Places[:min(atOnce, len(a.Places))] }

// More are those that are told when they are asked for.
func (a accusation) More() []*place { return a.Places[min(atOnce, len(a.Places)):] }

// judged is one line of the table of verdicts.
type judged struct {
	invariant.Verdict
	Name string
	Must bool
}

// WriteTimeline writes a page that shows the run to a person who knows neither the
// operator nor the harness. It needs nothing but itself.
func (r *Run) WriteTimeline(w io.Writer) error {
	places := placesOf(r.Verdicts)
	s := tell(r, places)
	p := page{Run: r, Title: r.Scenario, Overview: s.overview(places), Rows: s.rows, story: s, Condition: conditionOf(r.Result)}
	if r.Perturbation != "" {
		p.Title += ", " + r.Perturbation
	}
	for _, name := range s.replicas {
		p.Replicas = append(p.Replicas, member{s.laneOf(name), name, s.short(name), strings.TrimPrefix(name, s.prefix)})
	}
	for _, v := range r.Verdicts {
		p.Judged = append(p.Judged, judged{v, nameOf(v.Invariant), slices.Contains(r.Must, v.Invariant)})
		if v.Result != invariant.Broken {
			continue
		}
		a := accusation{Verdict: v, Name: nameOf(v.Invariant)}
		for _, place := range places {
			if place.Invariant == v.Invariant {
				a.Places = append(a.Places, place)
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
		p.Happened = append(p.Happened, happened(s, f))
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

// conditionOf says in a sentence what a result means.
func conditionOf(r invariant.Result) string {
	return map[invariant.Result]string{
		invariant.Held:         "Every promise was kept.",
		invariant.Broken:       "The operator broke a promise.",
		invariant.Inconclusive: "No promise is known to be broken, but one that this scenario is about could not be judged.",
		invariant.Void:         "What was to go wrong did not, so the run proves nothing.",
	}[r]
}

func happened(s *story, f history.Fault) string {
	if f.Happened == 0 {
		return "It did not happen: " + f.Detail + "."
	}
	text := fmt.Sprintf("It did happen, %s after the beginning", strings.TrimPrefix(s.since(f.Began), "+"))
	if f.Replica != "" {
		text += ", to " + s.short(f.Replica)
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	return strings.TrimRight(text, ".") + "."
}

// Since is a time as the page shows it, in seconds from the beginning.
func (p page) Since(at time.Time) string { return strings.TrimSuffix(p.story.since(at), " s") }

// Who is the name of a lane.
func (p page) Who(lane string) string { return p.story.who(lane) }

// Here are the promises whose breach is told in full at a row.
func (p page) Here(r *row) []accusation {
	var here []accusation
	for _, a := range p.Broken {
		first := slices.IndexFunc(p.Rows, func(row *row) bool {
			return slices.ContainsFunc(a.Places, func(place *place) bool { return place.At == row.ID && row.ID != "" })
		})
		a.Again = first >= 0 && p.Rows[first] != r
		a.Places = slices.DeleteFunc(slices.Clone(a.Places), func(place *place) bool { return place.At != r.ID })
		if len(a.Places) > 0 {
			here = append(here, a)
		}
	}
	return here
}

// Elsewhere are those that only name it too.
func (p page) Elsewhere(r *row) []*place {
	return slices.DeleteFunc(slices.Clone(r.Places), func(place *place) bool { return place.At == r.ID })
}

// Class is how a row looks.
func (p page) Class(r *row) string {
	classes := []string{r.Kind, cmp.Or(r.Effect, "none")}
	for class, on := range map[string]bool{"aside": r.Aside, "resting": r.Resting, "broken": len(r.Places) > 0} {
		if on {
			classes = append(classes, class)
		}
	}
	slices.Sort(classes[2:])
	return strings.Join(classes, " ")
}

// NotFound reports whether an accusation has places that no row shows.
func (p page) NotFound(a accusation) bool {
	return slices.ContainsFunc(a.Places, func(place *place) bool { return place.At == "" })
}
