package history

import (
	"fmt"
	"regexp"
	"strconv"
)

// Span says when something happened, by versions of the store. The zero Span is
// any time.
type Span struct {
	// From had been stored when it began, or is what it stored itself.
	From uint64 `json:"from,omitempty"`
	// To was not stored before it had ended, or is what it stored itself; 0 means
	// that nothing is known to have come after it.
	To uint64 `json:"to,omitempty"`
}

// At is the Span of a write that was stored with this version.
func At(version uint64) Span { return Span{From: version, To: version} }

// Exact returns the version of a write, if it is known.
func (s Span) Exact() (version uint64, ok bool) { return s.From, s.From == s.To && s.From > 0 }

// Before reports that s is known to have come before o. That neither is before
// the other means that their order cannot be told.
func (s Span) Before(o Span) bool { return s.To != 0 && s.To <= o.From && s != o }

// String is a version, or the two between which it was.
func (s Span) String() string {
	version, exact := s.Exact()
	switch {
	case exact:
		return fmt.Sprintf("resourceVersion %d", version)
	case s.To == 0:
		return fmt.Sprintf("after resourceVersion %d", s.From)
	}
	return fmt.Sprintf("between resourceVersions %d and %d", s.From, s.To)
}

// told finds what String says.
var told = regexp.MustCompile(`\b(?:(after )?resourceVersion (\d{1,19})|between resourceVersions (\d{1,19}) and (\d{1,19}))\b`)

// SpansIn returns the spans that a text names in the words of String, in order.
func SpansIn(text string) []Span {
	var spans []Span
	for _, found := range told.FindAllStringSubmatch(text, -1) {
		version := func(i int) uint64 { v, _ := strconv.ParseUint(found[i], 10, 64); return v }
		switch {
		case found[3] != "":
			spans = append(spans, Span{From: version(3), To: version(4)})
		case found[1] != "":
			spans = append(spans, Span{From: version(2)})
		default:
			spans = append(spans, At(version(2)))
		}
	}
	return spans
}
