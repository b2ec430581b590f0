package run

import (
	"strings"
	"testing"
)

// Each variant has a description of its own.
func TestDescribe_CoversEveryFault(t *testing.T) {
	for _, of := range specs {
		said := map[string]string{}
		for _, variant := range of.forms() {
			p := Plan{Scenario: "s", Fault: of.fault, Variant: variant,
				Target: Target{Method: "PATCH", Path: "/a/{b}", Nth: 2}}
			got := p.Describe()
			if got == "" || strings.Contains(got, "VARIANT") || strings.Contains(got, "TARGET") {
				t.Errorf("the words of %s: %q", p.ID(), got)
			}
			if other, same := said[got]; same {
				t.Errorf("%s has the words of variant %s: %q", p.ID(), other, got)
			}
			said[got] = variant
		}
	}
	p := Plan{Fault: failedWrite.fault, Variant: "409", Target: Target{Method: "PATCH", Path: "/a/{b}", Nth: 2}}
	const want = "a replica receives 409 (Conflict) in answer to PATCH of /a/{b}, number 2 of its kind in the run, which the API server never sees"
	if got := p.Describe(); got != want {
		t.Errorf("Words() = %q, want %q", got, want)
	}
}
