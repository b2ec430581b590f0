// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/onsi/gomega/gcustom"
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

// eventMessage is the message of ContainEvent. Its data are occurrences.
const eventMessage = `Expected the events
{{- range .Actual}}
    {{.Type}} {{.Reason}} x{{$.Data.Of .}} regarding {{.Regarding.Kind}} {{.Regarding.Namespace}}/{{.Regarding.Name}}:
    {{- " "}}{{.Note}}
{{- else}}
    none
{{- end}}
{{.To}} contain an event of
    {{.Data.Event}}
which was found {{.Data.Count}} times`

// occurrences are those of an event that is described.
type occurrences struct {
	Event Event
	Count int
}

// ContainEvent matches a slice of events.k8s.io/v1 events that contains one that want describes. If
// want.Times is set, the occurrences of all events that want describes must add up to it.
func ContainEvent(want Event) gomegatypes.GomegaMatcher {
	found := &occurrences{Event: want}
	return gcustom.MakeMatcher(func(events []eventsv1.Event) (bool, error) {
		note, err := regexp.Compile(want.Note)
		if err != nil {
			return false, fmt.Errorf("compiling the note %q: %w", want.Note, err)
		}
		found.Count = 0
		for _, e := range events {
			if want.describes(e) && note.MatchString(e.Note) {
				found.Count += found.Of(e)
			}
		}
		if want.Times > 0 {
			return found.Count == want.Times, nil
		}
		return found.Count > 0, nil
	}).WithTemplate(eventMessage, found)
}

func (e Event) describes(event eventsv1.Event) bool {
	return (e.Type == "" || e.Type == event.Type) &&
		(e.Reason == "" || e.Reason == event.Reason) &&
		(e.Regarding == "" || e.Regarding == event.Regarding.UID)
}

// Of returns the number of occurrences of an event. A series counts itself; an event written
// through the core group has its count in the deprecated field.
func (*occurrences) Of(event eventsv1.Event) int {
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
