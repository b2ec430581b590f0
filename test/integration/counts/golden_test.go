// SPDX-License-Identifier: Apache-2.0

package counts_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// header is the beginning of the golden file.
const header = `# What each change costs at the API server, counted in its audit log. Left out is what
# depends on time alone: the Lease, reviews, the webhooks' certificate, cluster addresses.
# counts are the same in every run. atMost bounds what depends on how soon a watch event
# arrives: reconciles, writes that were refused because an object had changed, and live reads
# of a MarkdownView's children. A key that is not in it may occur twice.
# go test ./test/integration/counts -update rewrites the file; a bound that holds stays.
`

// cost has the counts of one phase.
type cost struct {
	// Why is the reason for the writes and live reads of the phase.
	Why string `json:"why,omitempty"`
	// Counts repeat exactly. Keys are as in "write create namespaces", "no-op patch namespaces"
	// (a write without effect, also counted as a write), "read get secrets", "watch tenants",
	// "refused 403 patch tenants" and "event Tenant NamespaceCreated".
	Counts map[string]int `json:"counts,omitempty"`
	// AtMost bounds "reconcile tenant", "conflict patch namespaces", "read get deployments".
	AtMost map[string]int `json:"atMost,omitempty"`
}

// phaseCost is the cost of a named phase. Its AtMost has counts, not bounds.
type phaseCost struct {
	Name string
	cost
}

func (p phaseCost) String() string { return fmt.Sprintf("%s: %v and %v", p.Name, p.Counts, p.AtMost) }

// bound returns the bound for a count of n in one run.
func bound(n int) int { return 2*n + 2 }

func readGolden(text []byte) (golden map[string]cost, err error) {
	return golden, yaml.UnmarshalStrict(text, &golden)
}

// writeGolden keeps a bound that holds, so that runs do not change it.
func writeGolden(old map[string]cost, found []phaseCost) []byte {
	golden := map[string]cost{}
	for _, phase := range found {
		next := phase.cost
		next.AtMost = map[string]int{}
		for key, n := range phase.AtMost {
			next.AtMost[key] = bound(n)
			if limit := old[phase.Name].AtMost[key]; n <= limit && limit <= bound(2*n) {
				next.AtMost[key] = limit
			}
		}
		golden[phase.Name] = next
	}
	text, err := yaml.Marshal(golden)
	Expect(err).NotTo(HaveOccurred())
	return append([]byte(header), text...)
}

// difference is one number that differs from the golden file.
type difference struct {
	phase, key string
	want, got  int
}

func (d difference) String() string {
	return fmt.Sprintf("%s: %s: want %d, got %d", d.phase, d.key, d.want, d.got)
}

// compare returns all differences, in the order of the phases and keys.
func compare(want map[string]cost, found []phaseCost) (all []difference) {
	missing := maps.Clone(want)
	for _, phase := range found {
		golden := want[phase.Name]
		delete(missing, phase.Name)
		for _, key := range keys(golden.Counts, phase.Counts) {
			if golden.Counts[key] != phase.Counts[key] {
				all = append(all, difference{phase.Name, key, golden.Counts[key], phase.Counts[key]})
			}
		}
		for _, key := range keys(phase.AtMost) {
			limit, known := golden.AtMost[key]
			if !known {
				limit = bound(0)
			}
			if phase.AtMost[key] > limit {
				all = append(all, difference{phase.Name, key + " at most", limit, phase.AtMost[key]})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		all = append(all, difference{phase: name, key: "phase", want: 1})
	}
	return all
}

func keys(of ...map[string]int) []string {
	all := map[string]int{}
	for _, one := range of {
		maps.Copy(all, one)
	}
	return slices.Sorted(maps.Keys(all))
}

func TestCompare(t *testing.T) {
	g := NewWithT(t)
	golden, err := readGolden([]byte("a: {why: w, counts: {x: 1, v: 2}, atMost: {r: 3}}\nb: {}\n"))
	g.Expect(err).NotTo(HaveOccurred())
	phase := func(name string, counts, atMost map[string]int) phaseCost {
		return phaseCost{name, cost{Counts: counts, AtMost: atMost}}
	}
	same := []phaseCost{phase("a", map[string]int{"x": 1, "v": 2}, map[string]int{"r": 2}), phase("b", nil, nil)}
	g.Expect(compare(golden, same)).To(BeEmpty(), "fewer than the bound")
	changed := []phaseCost{phase("a", map[string]int{"x": 2, "z": 1}, map[string]int{"r": 4, "c": 3, "d": 2})}
	var texts []string
	for _, d := range compare(golden, changed) {
		texts = append(texts, d.String())
	}
	g.Expect(texts).To(Equal([]string{
		"a: v: want 2, got 0", "a: x: want 1, got 2", "a: z: want 0, got 1",
		"a: c at most: want 2, got 3", "a: r at most: want 3, got 4", "b: phase: want 1, got 0",
	}))
	_, err = readGolden([]byte("a: {count: {x: 1}}"))
	g.Expect(err).To(MatchError(ContainSubstring("count")))
}

func TestWriteGolden(t *testing.T) {
	g := NewWithT(t)
	RegisterTestingT(t)
	old := map[string]cost{"a": {AtMost: map[string]int{"r": 3, "s": 1, "t": 20, "gone": 1}}, "gone": {}}
	text := writeGolden(old, []phaseCost{{"a",
		cost{Why: "w", Counts: map[string]int{"x": 1}, AtMost: map[string]int{"r": 2, "s": 2, "t": 1}}}})
	g.Expect(strings.HasPrefix(string(text), header)).To(BeTrue())
	g.Expect(readGolden(text)).To(Equal(map[string]cost{"a": {Why: "w", Counts: map[string]int{"x": 1},
		AtMost: map[string]int{"r": 3, "s": 6, "t": 4}}}))
}
