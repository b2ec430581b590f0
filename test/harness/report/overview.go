// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The measures of the overview, in the units of its picture.
const (
	pictureWidth  = 1320.0
	margin        = 190.0 // for the names of lanes
	padding       = 16.0
	headHeight    = 44.0 // for marks and seconds
	laneHeight    = 34.0
	replicaLane   = 56.0
	labelDistance = 46.0 // between two labels of seconds, at least
)

// overview is the run in one picture: lanes from top to bottom, time from left to
// right.
type overview struct {
	Width, Height float64
	Lanes         []lane
	Bars          []bar
	Ticks         []tick
	Seconds       []second
	Flags         []flag
}

type lane struct {
	Class, Name, Title string
	Y, Height          float64
}

// Middle is the vertical position of its name.
func (l lane) Middle() float64 { return l.Y + l.Height/2 + 4 }

// bar is something with a duration.
type bar struct {
	Class, Label, Title string
	X, Y, Width, Height float64
}

// LabelX is the middle of its label, within the picture.
func (b bar) LabelX() float64 { return min(rounded(b.X+b.Width/2), pictureWidth-48) }

// LabelY is the base line of its label.
func (b bar) LabelY() float64 { return b.Y + 12 }

// tick is something at one time.
type tick struct {
	Class, Href, Title string
	X, Y, Y2           float64
	Sign               string // a letter above, of what is not just a write
}

type second struct {
	X    float64
	Text string
}

// flag links to a violation.
type flag struct {
	X, Y, Bottom float64
	Number       int
	Href, Title  string
}

// Text is the vertical position of its number.
func (f flag) Text() float64 { return f.Y + 4 }

func (s *timelineWriter) overview(sites []*violationSite) overview {
	var happens []time.Time
	for _, r := range s.rows {
		if !r.Aside {
			happens = append(happens, r.At)
		}
	}
	at := newTimeAxis(s.began, s.ended, happens, margin+padding, pictureWidth-padding)
	o := overview{Width: pictureWidth}
	byName := o.lanes(s)
	o.addCheckpoints(s, at)
	o.addProcesses(s, at, byName)
	o.addFaults(s, at, byName)
	for _, r := range s.rows {
		o.addTick(s, r, at, byName)
	}
	o.addSeconds(s, at)
	for _, p := range sites {
		o.addFlag(p, at)
	}
	return o
}

// lanes lays out the lanes that are not empty.
func (o *overview) lanes(s *timelineWriter) map[string]lane {
	used := map[string]bool{}
	for _, r := range s.rows {
		used[r.Lane] = true
		used[laneExternal] = used[laneExternal] || r.call != nil
	}
	y := headHeight
	by := map[string]lane{}
	add := func(class, name, title string, height float64) {
		by[class] = lane{Class: class, Name: name, Title: title, Y: y, Height: height}
		o.Lanes = append(o.Lanes, by[class])
		y += height
	}
	add(laneUsers, "users", "requests of the scenario", laneHeight)
	if used[laneFaults] {
		add(laneFaults, "faults", "injected faults", laneHeight)
	}
	for _, name := range s.replicas {
		add(s.laneOf(name), s.short(name), name, replicaLane)
	}
	for _, l := range []struct{ class, name, title string }{
		{laneOperator, "operator, replica unknown", "requests whose token does not name a replica"},
		{laneExternal, "external calls", "requests to external systems"},
		{laneCluster, "Kubernetes", "garbage collector, namespace controller and others"},
	} {
		if used[l.class] {
			add(l.class, l.name, l.title, laneHeight)
		}
	}
	o.Height = y + padding
	return by
}

func (o *overview) addCheckpoints(s *timelineWriter, at timeAxis) {
	for _, m := range s.history.Checkpoints {
		class, how := "mark", "converged"
		if !m.Converged {
			class, how = "mark unreached", "not converged"
		}
		x := at.x(m.Began)
		o.Bars = append(o.Bars, bar{
			Class: class, Label: m.Name, Title: fmt.Sprintf("checkpoint %s: %s", m.Name, how),
			X: x, Y: 4, Width: at.x(m.Ended) - x, Height: o.Height - padding,
		})
	}
}

// addProcesses draws when replicas ran and led.
func (o *overview) addProcesses(s *timelineWriter, at timeAxis, by map[string]lane) {
	for _, p := range s.history.Replicas {
		l, ended := by[s.laneOf(p.Name)], p.Ended
		if ended.IsZero() {
			ended = s.ended
		}
		if ended.Before(s.began) || p.Started.After(s.ended) {
			continue
		}
		x := at.x(p.Started)
		o.Bars = append(o.Bars, bar{
			Class: "life " + l.Class, Title: p.Name + " runs", X: x, Y: l.Y + 34, Width: at.x(ended) - x, Height: 16,
		})
	}
	for i, t := range s.terms {
		l, there := by[s.laneOf(t.Holder)]
		if t.Holder == "" || !there {
			continue
		}
		ended := s.ended
		if i+1 < len(s.terms) {
			ended = s.terms[i+1].At
		}
		x := at.x(t.At)
		o.Bars = append(o.Bars, bar{
			Class: "leads " + l.Class, Title: fmt.Sprintf("%s holds the Lease, from %s on", t.Holder, t.RevisionRange),
			X: x, Y: l.Y + 38, Width: at.x(ended) - x, Height: 8,
		})
	}
}

// addFaults draws the durations of faults, in their lane and in that of their replica.
func (o *overview) addFaults(s *timelineWriter, at timeAxis, by map[string]lane) {
	for _, f := range s.history.Faults {
		if f.Began.IsZero() || f.Began.After(s.ended) {
			continue
		}
		x := at.x(f.Began)
		width := max(4, at.x(f.Ended)-x)
		title := fmt.Sprintf("%s: %s (happened %d times)", f.Name, f, f.Happened)
		lanes := []lane{by[laneFaults]}
		if l, there := by[s.laneOf(f.Replica)]; there && f.Replica != "" {
			lanes = append(lanes, l)
		}
		for _, l := range lanes {
			o.Bars = append(o.Bars, bar{Class: "fault", Title: title, X: x, Y: l.Y + 3, Width: width, Height: l.Height - 6})
		}
	}
}

// The signs above ticks of processes and faults.
const (
	signStarted    = "▶"
	signTerminated = "▼"
	signEnded      = "■"
	signKilled     = "✖"
	signFault      = "⚡"
)

func (o *overview) addTick(s *timelineWriter, r *row, at timeAxis, by map[string]lane) {
	l, there := by[r.Lane]
	if r.call != nil {
		l, there = by[laneExternal], true
	}
	if r.Kind == "gap" || !there {
		return
	}
	t := tick{Class: strings.TrimSpace(l.Class + " " + r.Effect), Href: "#" + r.ID, X: at.x(r.At), Y: l.Y + 8,
		Y2: l.Y + 30, Sign: r.sign}
	t.Title = fmt.Sprintf("%s  %s %s", s.since(r.At), r.Verb, r.Object)
	if r.request != nil {
		t.Title = fmt.Sprintf("%s  %s\n%s", s.since(r.At), r.request, strings.Join(r.Notes, "\n"))
	}
	if r.Aside {
		t.Class += " aside"
		t.Y = l.Y + 22
	}
	if len(r.Sites) > 0 {
		t.Class += " broken"
	}
	o.Ticks = append(o.Ticks, t)
}

// addSeconds labels the time axis where there is room.
func (o *overview) addSeconds(s *timelineWriter, at timeAxis) {
	last := 0.0
	for n := 0; ; n++ {
		t := s.began.Add(time.Duration(n) * time.Second)
		if t.After(s.ended) {
			return
		}
		if x := at.x(t); x-last >= labelDistance {
			o.Seconds = append(o.Seconds, second{x, fmt.Sprintf("%d s", n)})
			last = x
		}
	}
}

func (o *overview) addFlag(p *violationSite, at timeAxis) {
	if len(p.Rows) == 0 {
		return
	}
	f := flag{X: at.x(p.Rows[0].At), Y: headHeight - 6, Bottom: o.Height - padding, Number: p.Number, Href: "#" + p.At,
		Title: p.Invariant + " was broken: " + p.Violation.Message}
	// Several at one time stand beside each other.
	for slices.ContainsFunc(o.Flags,
		func(other flag) bool { return other.Y == f.Y && other.X > f.X-16 && other.X < f.X+16 }) {
		f.Y -= 16
		if f.Y < 8 {
			return
		}
	}
	o.Flags = append(o.Flags, f)
}

// since formats a time relative to the start.
func (s *timelineWriter) since(at time.Time) string {
	return fmt.Sprintf("+%.3f s", cmp.Or(at.Sub(s.began), 0).Seconds())
}
