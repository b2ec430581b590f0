package render

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

// ids generates the element IDs of headings, in any script: "Über uns!" is "über-uns", and the
// second one is "über-uns-1".
type ids struct {
	used map[string]bool
	next map[string]int // the next suffix to try
}

func newIDs(reserved []string) *ids {
	s := &ids{used: map[string]bool{}, next: map[string]int{}}
	for _, id := range reserved {
		s.used[id] = true
	}
	return s
}

// Generate implements goldmark's parser.IDs.
func (s *ids) Generate(heading []byte, _ ast.NodeKind) []byte {
	base := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			return unicode.ToLower(r)
		case unicode.IsSpace(r), r == '-', r == '_':
			return '-'
		}
		return -1
	}, strings.TrimSpace(strings.ToValidUTF8(string(heading), "")))
	if base == "" {
		base = "heading"
	}
	id := base
	for s.used[id] {
		s.next[base]++
		id = base + "-" + strconv.Itoa(s.next[base])
	}
	s.used[id] = true
	return []byte(id)
}

// Put implements goldmark's parser.IDs.
func (s *ids) Put(id []byte) {
	s.used[string(id)] = true
}
