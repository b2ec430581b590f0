package run

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Describe returns the plan in a sentence.
func (p Plan) Describe() string {
	s, variant, t := specOf(p.Fault), p.Variant, p.Target
	text := cmp.Or(s.texts[variant], s.text)
	if code, err := strconv.Atoi(variant); err == nil {
		variant = fmt.Sprintf("%d (%s)", code, http.StatusText(code))
	}
	target := fmt.Sprintf("%s of %s, number %d of its kind in the run", t.Method, t.Path, t.Nth)
	return strings.NewReplacer("VARIANT", variant, "TARGET", target,
		"COLLECTION", t.Path, "STEP", fmt.Sprintf("step %d of those that do something", t.Nth)).Replace(text)
}
