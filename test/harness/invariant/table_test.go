// SPDX-License-Identifier: Apache-2.0

package invariant_test

import (
	"bytes"
	"strings"
	"testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// row is one history and what has to become of it.
type row struct {
	history    *history.History
	references []*history.History
	change     func(*invariant.Contract)
	want       invariant.Result
	says       []string // parts of the verdict's text
	lacks      string   // what the text must not have; "" is nothing
}

func wantHeld(h *history.History, says ...string) row {
	return row{history: h, want: invariant.Held, says: says}
}

func wantBroken(h *history.History, says ...string) row {
	return row{history: h, want: invariant.Broken, says: says}
}

func wantInconclusive(h *history.History, says ...string) row {
	return row{history: h, want: invariant.Inconclusive, says: says}
}

// against compares the history with clean runs.
func (r row) against(clean ...*history.History) row {
	r.references = clean
	return r
}

// under judges by a contract that is changed.
func (r row) under(change func(*invariant.Contract)) row {
	r.change = change
	return r
}

func (r row) lacking(text string) row {
	r.lacks = text
	return r
}

// table has the rows of a test, by their names.
type table map[string]row

// against is row.against for all rows that are not compared yet. Those with none stay so.
func (rows table) against(clean ...*history.History) table {
	for name, r := range rows {
		if r.references == nil {
			rows[name] = r.against(clean...)
		}
	}
	return rows
}

// under changes the contract of each row that has no own contract. Rows with asItIs keep theirs.
func (rows table) under(change func(*invariant.Contract)) table {
	for name, r := range rows {
		if r.change == nil {
			rows[name] = r.under(change)
		}
	}
	return rows
}

// pair has two clean runs with one history.
func pair(h *history.History) []*history.History { return []*history.History{h, h} }

var none = []*history.History{}

func asItIs(*invariant.Contract) {}

func check(t *testing.T, i invariant.Invariant, rows table) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			c := invariant.Case{History: saved(t, r.history), Contract: operator()}
			for _, h := range r.references {
				c.References = append(c.References, saved(t, h))
			}
			if r.change != nil {
				r.change(&c.Contract)
			}
			got := i.Judge(c)
			if got.Result != r.want {
				t.Fatalf("want %s, got %s", r.want, got)
			}
			if want := r.want == invariant.Broken; want != (len(got.Violations) > 0) {
				t.Errorf("violations %v do not go with %s", got.Violations, r.want)
			}
			text := got.Details()
			for _, part := range append([]string{i.Name, i.Promise}, r.says...) {
				if !strings.Contains(text, part) {
					t.Errorf("the verdict lacks %q:\n%s", part, text)
				}
			}
			if r.lacks != "" && strings.Contains(text, r.lacks) {
				t.Errorf("the verdict has %q:\n%s", r.lacks, text)
			}
			if again := i.Judge(c).Details(); again != text {
				t.Errorf("judged again:\n%s\nbefore:\n%s", again, text)
			}
		})
	}
}

// saved returns the history after it was saved and loaded.
func saved(t *testing.T, h *history.History) *history.History {
	t.Helper()
	var file bytes.Buffer
	if err := h.Encode(&file); err != nil {
		t.Fatal(err)
	}
	back, err := history.Decode(&file)
	if err != nil {
		t.Fatal(err)
	}
	return back
}
