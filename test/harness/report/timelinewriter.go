// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// row is one line of the timeline.
type row struct {
	// ID is the target of links. Kind is write, fault, process, call, mark or gap.
	ID, Kind, Lane string
	Number         int // of a write, from 1
	At             time.Time
	Version        string
	Verb, Object   string
	Answer, Effect string
	Notes          []string
	// Lifelines show for each replica whether it ran, led and acted.
	Lifelines []lifeline
	// Sites are the violations at this row.
	Sites []*violationSite
	// Aside hides rows that rarely matter, such as renewals of the Lease. Resting means that the
	// row lies in a checkpoint.
	Aside, Resting bool

	sign       string // in the overview, of a process or a fault
	request    *history.Request
	call       *history.Call
	checkpoint *history.Checkpoint
}

// lifeline is the state of a replica at a row.
type lifeline struct {
	Lane, Title        string
	Alive, Leads, Acts bool
}

// timelineWriter orders all events of a run: those that were stored by revision, and the others
// between them by time.
type timelineWriter struct {
	*participants
	history *history.History
	index   *history.Index
	terms   []history.Term
	rows    []*row
	began   time.Time
	ended   time.Time
}

func newTimelineWriter(r *Run, sites []*violationSite) *timelineWriter {
	s := &timelineWriter{participants: participantsOf(r.History, r.Contract), history: r.History, index: r.History.Index()}
	s.terms = r.History.Terms(r.Contract.Lease)
	writes := s.writeRows(sites)
	s.setBounds(writes)
	var stored []*row
	others := s.otherRows()
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
		row.Resting = row.checkpoint == nil && slices.ContainsFunc(r.History.Checkpoints, func(m history.Checkpoint) bool {
			return !row.At.Before(m.Began) && !row.At.After(m.Ended)
		})
	}
	s.addLifelines()
	for _, p := range sites {
		p.locate(s.rows)
	}
	s.rows = withGaps(s.rows, s.participants)
	return s
}

// writeRows returns rows for the writes and for other requests that a violation refers to.
func (s *timelineWriter) writeRows(sites []*violationSite) []*row {
	var rows []*row
	n := 0
	for i := range s.history.Requests {
		r := &s.history.Requests[i]
		isViolation := slices.ContainsFunc(sites,
			func(p *violationSite) bool { return p.refersTo(invariant.HistoryRef{Request: r.ID}) })
		if !r.Write() && !isViolation {
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
		row.Notes = limitNotes(s.notes(*r))
		row.Aside = !isViolation && s.aside(*r)
		rows = append(rows, row)
	}
	return rows
}

// maxNotes bounds the notes of a row.
const maxNotes = 8

func limitNotes(notes []string) []string {
	if len(notes) <= maxNotes {
		return notes
	}
	return append(notes[:maxNotes-1:maxNotes-1], fmt.Sprintf("and %d more", len(notes)-maxNotes+1))
}

// aside reports whether a request rarely matters: a renewal of the Lease, or a request of the
// cluster's own controllers about an object that is not the operator's.
func (s *timelineWriter) aside(r history.Request) bool {
	switch {
	case r.Key == s.contract.Lease:
		return r.Done() && s.term(r.RevisionRange) == nil
	case s.lane(r) == laneCluster:
		return !slices.Contains(s.contract.Resources(), r.Resource)
	}
	return false
}

// term returns the term of leadership that a write began, or nil.
func (s *timelineWriter) term(at history.RevisionRange) *history.Term {
	i := slices.IndexFunc(s.terms, func(t history.Term) bool { return t.RevisionRange == at })
	if i < 0 {
		return nil
	}
	return &s.terms[i]
}

// notes describes the effect of a request.
func (s *timelineWriter) notes(r history.Request) []string {
	var notes []string
	if r.Reason != "" {
		notes = append(notes, r.Reason)
	}
	if t := s.term(r.RevisionRange); t != nil && r.Key == s.contract.Lease {
		if t.Holder == "" {
			return append(notes, "no replica is the leader from here on")
		}
		return append(notes, s.short(t.Holder)+" is the leader from here on")
	}
	for _, e := range s.history.Events {
		if e.RevisionRange == r.RevisionRange && r.Resource.Resource == "events" {
			return append(notes, strings.TrimRight(fmt.Sprintf("event: %s %s: %s", e.Type, e.Reason, e.Note), ": "))
		}
	}
	if r.Made {
		return append(notes, "it did not exist before")
	}
	life := s.index.Lifetime(r.UID)
	if life == nil || r.Effect != history.Stored {
		return notes
	}
	for i, v := range life.Versions {
		if v.RevisionRange == r.RevisionRange && i > 0 {
			notes = append(notes, changes(life.Versions[i-1].Object, v.Object)...)
		}
	}
	return notes
}

// otherRows returns rows for everything but requests to the API server.
func (s *timelineWriter) otherRows() []*row {
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
		add(p.Started, "process", lane, name+" starts").sign = signStarted
		add(p.Asked, "process", lane, name+" receives SIGTERM").sign = signTerminated
		switch {
		case p.Killed:
			add(p.Ended, "process", lane, name+" is killed (SIGKILL)").sign = signKilled
		default:
			add(p.Ended, "process", lane, fmt.Sprintf("%s ends with exit code %d", name, p.Exit)).sign = signEnded
		}
	}
	for i := range s.history.Faults {
		f := &s.history.Faults[i]
		text := "FAULT: " + cmp.Or(f.Detail, f.Name)
		if f.Replica != "" {
			text += ", of " + s.short(f.Replica)
		}
		add(f.Began, "fault", laneFaults, text, f.Name).sign = signFault
		if f.Ended.Sub(f.Began) > time.Second {
			add(f.Ended, "fault", laneFaults, "the fault has ended", f.Name)
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
		r.Notes = []string{"external", "for UID " + cmp.Or(string(c.Owner), "(none)")}
		if !c.Delivered {
			r.Notes = append(r.Notes, "the answer was not delivered")
		}
	}
	for i := range s.history.Checkpoints {
		m := &s.history.Checkpoints[i]
		text := fmt.Sprintf("checkpoint %q: users and faults have stopped, the desired state is reached", m.Name)
		if !m.Converged {
			text = fmt.Sprintf("checkpoint %q: users and faults have stopped, the desired state was not reached in time", m.Name)
		}
		r := add(m.Began, "mark", "", text, fmt.Sprintf("observed for %s", m.Ended.Sub(m.Began).Round(time.Millisecond)))
		r.ID, r.checkpoint, r.Version = "mark-"+m.Name, m, fmt.Sprint(m.From)
	}
	return rows
}

// setBounds sets the first and the last time of the timeline.
func (s *timelineWriter) setBounds(writes []*row) {
	var times []time.Time
	for _, w := range writes {
		times = append(times, w.At)
	}
	for _, m := range s.history.Checkpoints {
		times = append(times, m.Began, m.Ended)
	}
	for _, f := range s.history.Faults {
		times = append(times, f.Began, f.Ended)
	}
	for _, c := range s.history.Calls {
		times = append(times, c.Began, c.Ended)
	}
	times = slices.DeleteFunc(times, time.Time.IsZero)
	if len(times) > 0 {
		s.began, s.ended = slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)
	}
}

// merge inserts the rows that are ordered by time between those ordered by revision.
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

// addLifelines adds the state of all replicas to each row.
func (s *timelineWriter) addLifelines() {
	leader := ""
	for _, row := range s.rows {
		if row.request != nil {
			if t := s.term(row.request.RevisionRange); t != nil && row.request.Key == s.contract.Lease {
				leader = t.Holder
			}
		}
		for _, name := range s.replicas {
			lane := s.laneOf(name)
			l := lifeline{Lane: lane, Alive: s.alive(name, row.At), Leads: name == leader,
				Acts: row.Lane == lane && row.Kind != "process"}
			l.Title = s.short(name) + map[bool]string{true: " runs", false: " does not run"}[l.Alive]
			if l.Leads {
				l.Title += " and holds the Lease"
			}
			row.Lifelines = append(row.Lifelines, l)
		}
	}
}

// alive reports whether a process of the replica ran. It is true for a replica without recorded
// processes.
func (s *timelineWriter) alive(name string, at time.Time) bool {
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

// withGaps inserts a line before hidden rows that counts them.
func withGaps(rows []*row, c *participants) []*row {
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
			if rows[i].request.Key == c.contract.Lease {
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
		all = append(all, &row{Kind: "gap", At: first.At, Object: strings.Join(parts, ", "), Lifelines: idle(first.Lifelines),
			Resting: first.Resting})
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
