package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/harness/history"
)

// row is one thing that happened, in the order of the story.
type row struct {
	// ID is what a link leads to. Kind is write, fault, process, call, mark or gap.
	ID, Kind, Lane string
	Number         int // of a write, from 1
	At             time.Time
	Version        string
	Verb, Object   string
	Answer, Effect string
	Notes          []string
	// Lifelines say of each replica whether it was there, led and did this.
	Lifelines []lifeline
	// Places are the promises that were broken here.
	Places []*place
	// Aside is what is of no interest as long as all goes well, such as renewals of
	// the Lease. Resting is that all was to be at rest.
	Aside, Resting bool

	request *history.Request
	call    *history.Call
	mark    *history.Mark
}

// lifeline is a replica at the time of a row.
type lifeline struct {
	Lane          string
	Alive, Leads  bool
	Acts          bool
	Replica, Says string
}

// story is all that happened, in order: what was stored by version, and between
// that by time what has none.
type story struct {
	*cast
	history *history.History
	index   *history.Index
	terms   []history.Term
	rows    []*row
	began   time.Time
	ended   time.Time
}

func tell(r *Run, places []*place) *story {
	s := &story{cast: castOf(r.History, r.Operator), history: r.History, index: r.History.Index()}
	s.terms = r.History.Terms(r.Operator.Lease)
	writes := s.writes(places)
	s.frame(writes)
	var stored []*row
	others := s.others()
	for _, w := range writes {
		if w.Version != "" {
			stored = append(stored, w)
		} else {
			others = append(others, w)
		}
	}
	slices.SortStableFunc(others, func(a, b *row) int { return a.At.Compare(b.At) })
	s.rows = merge(stored, others)
	for i, row := range s.rows {
		if row.ID == "" {
			row.ID = fmt.Sprintf("row-%d", i+1)
		}
		row.Resting = row.mark == nil && slices.ContainsFunc(r.History.Marks, func(m history.Mark) bool {
			return !row.At.Before(m.Began) && !row.At.After(m.Ended)
		})
	}
	s.draw()
	for _, p := range places {
		p.find(s.rows)
	}
	s.rows = withGaps(s.rows, s.cast)
	return s
}

// writes are the requests that were to change something, and those that a broken
// promise is about.
func (s *story) writes(places []*place) []*row {
	var rows []*row
	n := 0
	for i := range s.history.Requests {
		r := &s.history.Requests[i]
		accused := slices.ContainsFunc(places, func(p *place) bool { return strings.Contains(p.Breach, r.String()) })
		if !r.Write() && !accused {
			continue
		}
		n++
		row := &row{
			ID: fmt.Sprintf("w%d", n), Kind: "write", Number: n, Lane: s.lane(*r), At: r.Answered,
			Verb: r.Verb, Object: r.Key.String(), Answer: fmt.Sprint(r.Code), Effect: string(r.Effect), request: r,
		}
		if r.Subresource != "" {
			row.Object += " (" + r.Subresource + ")"
		}
		if version, exact := r.Exact(); exact {
			row.Version = fmt.Sprint(version)
		}
		row.Notes = few(s.notes(*r))
		row.Aside = !accused && s.aside(*r)
		rows = append(rows, row)
	}
	return rows
}

// mostNotes are as many as fit beside a row without taking it over.
const mostNotes = 8

func few(notes []string) []string {
	if len(notes) <= mostNotes {
		return notes
	}
	return append(notes[:mostNotes-1:mostNotes-1], fmt.Sprintf("and %d more", len(notes)-mostNotes+1))
}

// aside is what goes on all the time: renewals of the Lease, and what the cluster's
// own controllers do to objects that the operator has nothing to do with.
func (s *story) aside(r history.Request) bool {
	switch {
	case r.Key == s.operator.Lease:
		return r.Done() && s.term(r.Span) == nil
	case s.lane(r) == laneCluster:
		return !s.owns(r.Resource)
	}
	return false
}

// term is the time of leadership that a write began; nil if it began none.
func (s *story) term(at history.Span) *history.Term {
	i := slices.IndexFunc(s.terms, func(t history.Term) bool { return t.Span == at })
	if i < 0 {
		return nil
	}
	return &s.terms[i]
}

// notes say what a request meant.
func (s *story) notes(r history.Request) []string {
	var notes []string
	if r.Reason != "" {
		notes = append(notes, r.Reason)
	}
	if t := s.term(r.Span); t != nil && r.Key == s.operator.Lease {
		if t.Holder == "" {
			return append(notes, "nobody leads from here on")
		}
		return append(notes, s.short(t.Holder)+" leads from here on")
	}
	for _, e := range s.history.Events {
		if e.Span == r.Span && r.Resource.Resource == "events" {
			return append(notes, strings.TrimRight(fmt.Sprintf("tells: %s %s: %s", e.Type, e.Reason, e.Note), ": "))
		}
	}
	if r.Made {
		return append(notes, "it was not there before")
	}
	life := s.index.Life(r.UID)
	if life == nil || r.Effect != history.Stored {
		return notes
	}
	for i, v := range life.Versions {
		if v.Span == r.Span && i > 0 {
			notes = append(notes, changes(life.Versions[i-1].Object, v.Object)...)
		}
	}
	return notes
}

// others are what is no request to the API server.
func (s *story) others() []*row {
	var rows []*row
	add := func(at time.Time, kind, lane, text string, notes ...string) *row {
		r := &row{Kind: kind, Lane: lane, At: at, Object: text, Notes: notes}
		if !at.IsZero() && !at.Before(s.began) && !at.After(s.ended) {
			rows = append(rows, r)
		}
		return r
	}
	for _, p := range s.history.Replicas {
		lane, name := s.laneOf(p.Name), s.short(p.Name)
		add(p.Started, "process", lane, name+" starts")
		add(p.Asked, "process", lane, name+" is asked to stop (SIGTERM)")
		switch {
		case p.Killed:
			add(p.Ended, "process", lane, name+" is killed (SIGKILL)")
		default:
			add(p.Ended, "process", lane, fmt.Sprintf("%s ends with exit code %d", name, p.Exit))
		}
	}
	for i := range s.history.Faults {
		f := &s.history.Faults[i]
		text := "FAULT: " + cmp.Or(f.Detail, f.Name)
		if f.Replica != "" {
			text += ", of " + s.short(f.Replica)
		}
		add(f.Began, "fault", laneFaults, text, f.Name)
		if f.Ended.Sub(f.Began) > time.Second {
			add(f.Ended, "fault", laneFaults, "the fault is over", f.Name)
		}
	}
	for i := range s.history.Calls {
		c := &s.history.Calls[i]
		lane := laneExternal
		if slices.Contains(s.replicas, c.Replica) {
			lane = s.laneOf(c.Replica)
		}
		r := add(c.Began, "call", lane, "external "+c.Thing)
		r.Verb, r.Effect, r.call = string(c.Action), string(c.Outcome), c
		r.Notes = []string{"outside the cluster", "for UID " + cmp.Or(string(c.Owner), "(none)")}
		if !c.Delivered {
			r.Notes = append(r.Notes, "the answer was not delivered")
		}
	}
	for i := range s.history.Marks {
		m := &s.history.Marks[i]
		text := fmt.Sprintf("at rest %q: users and faults have stopped, all is as desired", m.Name)
		if !m.Converged {
			text = fmt.Sprintf("at rest %q: users and faults have stopped, and what is desired was not reached in time", m.Name)
		}
		r := add(m.Began, "mark", "", text, fmt.Sprintf("looked on for %s", m.Ended.Sub(m.Began).Round(time.Millisecond)))
		r.ID, r.mark, r.Version = "mark-"+m.Name, m, fmt.Sprint(m.From)
	}
	return rows
}

// frame finds the times from which and to which there is something to show.
func (s *story) frame(writes []*row) {
	widen := func(at time.Time) {
		if at.IsZero() {
			return
		}
		if s.began.IsZero() || at.Before(s.began) {
			s.began = at
		}
		if at.After(s.ended) {
			s.ended = at
		}
	}
	for _, w := range writes {
		widen(w.At)
	}
	for _, m := range s.history.Marks {
		widen(m.Began)
		widen(m.Ended)
	}
	for _, f := range s.history.Faults {
		widen(f.Began)
		widen(f.Ended)
	}
	for _, c := range s.history.Calls {
		widen(c.Began)
		widen(c.Ended)
	}
}

// merge puts what is ordered by time between what is ordered by version.
func merge(stored, others []*row) []*row {
	var all []*row
	for _, w := range stored {
		for len(others) > 0 && others[0].At.Before(w.At) {
			all, others = append(all, others[0]), others[1:]
		}
		all = append(all, w)
	}
	return append(all, others...)
}

// draw notes at each row which replicas were there and which led.
func (s *story) draw() {
	leader := ""
	for _, row := range s.rows {
		if row.request != nil {
			if t := s.term(row.request.Span); t != nil && row.request.Key == s.operator.Lease {
				leader = t.Holder
			}
		}
		for _, name := range s.replicas {
			l := lifeline{Lane: s.laneOf(name), Replica: name, Leads: name == leader, Acts: row.Lane == s.laneOf(name) && row.Kind != "process"}
			l.Alive = s.alive(name, row.At)
			l.Says = s.short(name) + map[bool]string{true: " runs", false: " does not run"}[l.Alive]
			if l.Leads {
				l.Says += " and holds the Lease"
			}
			row.Lifelines = append(row.Lifelines, l)
		}
	}
}

// alive reports whether a process of the replica ran; of one whose processes were
// not recorded nothing else is known.
func (s *story) alive(name string, at time.Time) bool {
	known := false
	for _, p := range s.history.Replicas {
		if p.Name != name {
			continue
		}
		known = true
		if !at.Before(p.Started) && (p.Ended.IsZero() || at.Before(p.Ended)) {
			return true
		}
	}
	return !known
}

// withGaps puts a line wherever rows are left aside, that says how many.
func withGaps(rows []*row, c *cast) []*row {
	var all []*row
	for i := 0; i < len(rows); {
		if !rows[i].Aside {
			all = append(all, rows[i])
			i++
			continue
		}
		from := i
		renewals, others := 0, 0
		for ; i < len(rows) && rows[i].Aside; i++ {
			if rows[i].request.Key == c.operator.Lease {
				renewals++
			} else {
				others++
			}
		}
		var parts []string
		if renewals > 0 {
			parts = append(parts, counted(renewals, "renewal")+" of the Lease")
		}
		if others > 0 {
			parts = append(parts, counted(others, "request")+" of the cluster's own controllers about other objects")
		}
		first := rows[from]
		all = append(all, &row{Kind: "gap", At: first.At, Object: strings.Join(parts, ", "), Lifelines: idle(first.Lifelines), Resting: first.Resting})
		all = append(all, rows[from:i]...)
	}
	return all
}

func idle(lines []lifeline) []lifeline {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i].Acts = false
	}
	return lines
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
