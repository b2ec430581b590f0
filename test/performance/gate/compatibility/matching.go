package compatibility

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

const (
	// repeats is how much more than the least something is repeated.
	repeats = 12
	// attempts is how often a string is made anew that is too short or too long.
	attempts = 50
)

// matching makes a string that matches the pattern of s and has a length within its
// bounds, or, if it does not succeed, any string: the API server refuses that.
func (g *generator) matching(s apiextensionsv1.JSONSchemaProps) string {
	tree, err := syntax.Parse(s.Pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	accepts := regexp.MustCompile(s.Pattern)
	made := ""
	for range attempts {
		var b strings.Builder
		g.write(&b, tree)
		made = b.String()
		n := int64(utf8.RuneCountInString(made))
		if accepts.MatchString(made) && n >= ptr.Deref(s.MinLength, 0) && n <= ptr.Deref(s.MaxLength, n) {
			break
		}
	}
	return made
}

// write writes a string that the expression matches. What has no width, such as the
// beginning of a line, is left to the check of the whole.
func (g *generator) write(b *strings.Builder, e *syntax.Regexp) {
	switch e.Op {
	case syntax.OpLiteral:
		b.WriteString(string(e.Rune))
	case syntax.OpCharClass:
		pair := 2 * g.rand.IntN(len(e.Rune)/2)
		from, to := e.Rune[pair], e.Rune[pair+1]
		b.WriteRune(from + g.rand.Int32N(to-from+1))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteRune(' ' + g.rand.Int32N('~'-' '))
	case syntax.OpStar:
		g.repeat(b, e.Sub[0], 0, repeats)
	case syntax.OpPlus:
		g.repeat(b, e.Sub[0], 1, repeats)
	case syntax.OpQuest:
		g.repeat(b, e.Sub[0], 0, 1)
	case syntax.OpRepeat:
		most := e.Max
		if most < 0 {
			most = e.Min + repeats
		}
		g.repeat(b, e.Sub[0], e.Min, most)
	case syntax.OpAlternate:
		g.write(b, e.Sub[g.rand.IntN(len(e.Sub))])
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range e.Sub {
			g.write(b, sub)
		}
	default:
	}
}

func (g *generator) repeat(b *strings.Builder, e *syntax.Regexp, least, most int) {
	for range least + g.rand.IntN(most-least+1) {
		g.write(b, e)
	}
}
