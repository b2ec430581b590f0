// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	gomegatypes "github.com/onsi/gomega/types"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Event describes an event of events.k8s.io/v1. Empty fields match anything.
type Event struct {
	Type, Reason string
	// Note is a regular expression that must match a part of the event's note.
	Note string
	// Regarding is the UID of the object that the event is about.
	Regarding types.UID
	// Times is the total number of occurrences, including those of a series; 0 means at least once.
	Times int
}

// ContainEvent matches a slice of events.k8s.io/v1 events that contains one that want describes. If
// want.Times is set, the occurrences of all events that want describes must add up to it.
func ContainEvent(want Event) gomegatypes.GomegaMatcher { return &eventMatcher{want: want} }

type eventMatcher struct {
	want  Event
	found []eventsv1.Event
	times int
}

// Match implements types.GomegaMatcher.
func (m *eventMatcher) Match(actual any) (bool, error) {
	note, err := regexp.Compile(m.want.Note)
	if err != nil {
		return false, fmt.Errorf("compiling the note %q: %w", m.want.Note, err)
	}
	events, ok := actual.([]eventsv1.Event)
	if !ok {
		return false, fmt.Errorf("a slice of events.k8s.io/v1 events is needed, got %T", actual)
	}
	m.found, m.times = events, 0
	for i := range events {
		if m.want.describes(&events[i]) && note.MatchString(events[i].Note) {
			m.times += timesOf(&events[i])
		}
	}
	if m.want.Times > 0 {
		return m.times == m.want.Times, nil
	}
	return m.times > 0, nil
}

func (e Event) describes(event *eventsv1.Event) bool {
	return (e.Type == "" || e.Type == event.Type) &&
		(e.Reason == "" || e.Reason == event.Reason) &&
		(e.Regarding == "" || e.Regarding == event.Regarding.UID)
}

// timesOf returns the number of occurrences of an event. A series counts itself; an event written
// through the core group has its count in the deprecated field.
func timesOf(event *eventsv1.Event) int {
	if event.Series != nil {
		return int(event.Series.Count)
	}
	return max(1, int(event.DeprecatedCount))
}

// String describes the expected event in one line.
func (e Event) String() string {
	parts := []string{}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("type", e.Type)
	add("reason", e.Reason)
	if e.Note != "" {
		add("note", "matching /"+e.Note+"/")
	}
	add("regarding UID", string(e.Regarding))
	if e.Times > 0 {
		add("seen", fmt.Sprintf("%d times", e.Times))
	}
	return strings.Join(parts, ", ")
}

// FailureMessage implements types.GomegaMatcher.
func (m *eventMatcher) FailureMessage(any) string { return m.message("to contain") }

// NegatedFailureMessage implements types.GomegaMatcher.
func (m *eventMatcher) NegatedFailureMessage(any) string { return m.message("not to contain") }

func (m *eventMatcher) message(verb string) string {
	lines := make([]string, len(m.found))
	for i := range m.found {
		event := &m.found[i]
		lines[i] = fmt.Sprintf("%s %s x%d regarding %s %s/%s: %s", event.Type, event.Reason, timesOf(event),
			event.Regarding.Kind, event.Regarding.Namespace, event.Regarding.Name, event.Note)
	}
	return fmt.Sprintf("Expected the events\n    %s\n%s an event of\n    %s\nwhich was found %d times",
		cmp.Or(strings.Join(lines, "\n    "), "none"), verb, m.want, m.times)
}
