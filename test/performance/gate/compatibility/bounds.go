package compatibility

import (
	"fmt"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"leasehold.dev/test/performance/gate/row"
)

// bound is one bound of a field, the same way round for least and most.
type bound struct {
	what       string
	base, head *float64
	// least is whether it is the least that is accepted, and not the most.
	least bool
}

// bounds compares lengths, sizes, ranges and patterns. None is no bound.
func (c *comparison) bounds(field string, base, head apiextensionsv1.JSONSchemaProps) {
	for _, b := range []bound{
		{"minLength", float(base.MinLength), float(head.MinLength), true},
		{"maxLength", float(base.MaxLength), float(head.MaxLength), false},
		{"minItems", float(base.MinItems), float(head.MinItems), true},
		{"maxItems", float(base.MaxItems), float(head.MaxItems), false},
		{"minProperties", float(base.MinProperties), float(head.MinProperties), true},
		{"maxProperties", float(base.MaxProperties), float(head.MaxProperties), false},
		{"minimum", base.Minimum, head.Minimum, true},
		{"maximum", base.Maximum, head.Maximum, false},
	} {
		if number(b.base) == number(b.head) {
			continue
		}
		v, reason := row.Better, reasonMore
		if b.tighter() {
			v, reason = row.Worse, reasonRefused
		}
		c.add(field, b.what, number(b.base), number(b.head), v, reason)
	}
	for _, rule := range []struct{ what, base, head string }{
		{"pattern", base.Pattern, head.Pattern},
		{"multipleOf", multiple(base.MultipleOf), multiple(head.MultipleOf)},
		{"exclusiveMinimum", flag(base.ExclusiveMinimum), flag(head.ExclusiveMinimum)},
		{"exclusiveMaximum", flag(base.ExclusiveMaximum), flag(head.ExclusiveMaximum)},
		{"uniqueItems", flag(base.UniqueItems), flag(head.UniqueItems)},
	} {
		switch rule.head {
		case rule.base:
		case "":
			c.add(field, rule.what, rule.base, "", row.Better, reasonMore)
		default:
			// Whether one pattern accepts all that another does is not decided here.
			c.add(field, rule.what, rule.base, rule.head, row.Worse, reasonRefused)
		}
	}
}

func (b bound) tighter() bool {
	switch {
	case b.head == nil:
		return false
	case b.base == nil:
		// A least length of nothing is no bound.
		return !b.least || *b.head != 0 || b.what == "minimum"
	case b.least:
		return *b.head > *b.base
	default:
		return *b.head < *b.base
	}
}

func float(n *int64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

func number(f *float64) string {
	if f == nil {
		return "none"
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

func multiple(f *float64) string {
	if f == nil {
		return ""
	}
	return number(f)
}

func flag(b bool) string {
	if !b {
		return ""
	}
	return fmt.Sprint(b)
}
