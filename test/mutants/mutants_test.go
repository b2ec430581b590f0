// Package mutants tests that the mutants apply to the tree. It has only tests.
package mutants

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/mutants"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/tree"
)

// After a change of the lines that a mutant changes, the mutant must be updated. A wrong name of a
// scenario would otherwise fail only after half an hour.
func TestMutants_FitTheTree(t *testing.T) {
	NewWithT(t).Expect(mutants.Check(t.Context(), filepath.Join("..", ".."), filepath.Join("test", "mutants"),
		filepath.Join("test", "prove", "subject.yaml"))).To(Succeed())
}

func TestMutants_ChangeTheOperatorAlone(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join("patches", "*.patch"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	changes := regexp.MustCompile(`(?m)^\+\+\+ b/(.*)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		for _, changed := range changes.FindAllStringSubmatch(string(text), -1) {
			g.Expect(changed[1]).To(MatchRegexp(`^((api|controllers|runners|config)/.+|[a-z]+\.go)$`),
				"%s is the operator's mistake, not ours", file)
			g.Expect(changed[1]).NotTo(HaveSuffix("_test.go"), file)
		}
	}
}

// Names in the output of `prove faults` and `prove invariants` exist in this repository.
func TestMutants_AreWhatTheListsName(t *testing.T) {
	g := NewWithT(t)
	var classes []struct {
		Name string   `json:"name"`
		Seen []string `json:"seen"`
	}
	text, err := os.ReadFile("classes.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.Unmarshal(text, &classes)).To(Succeed())
	// read returns the invariant that kills a mutant, and the faults of its plans.
	read := func(name string) (kills string, seen, faults []string) {
		text, err := os.ReadFile(filepath.Join("patches", name+".patch"))
		g.Expect(err).NotTo(HaveOccurred())
		var head struct {
			Class, Bug, Kills, Change string
			Plans                     []string
		}
		g.Expect(tree.Header(text, &head)).To(Succeed(), name)
		for _, c := range classes {
			if c.Name == head.Class {
				seen = c.Seen
			}
		}
		for _, id := range head.Plans {
			if _, rest, found := strings.Cut(id, ":"); found { // otherwise a scenario without a fault
				fault, _, _ := strings.Cut(rest, ":")
				faults = append(faults, fault)
			}
		}
		return head.Kills, seen, faults
	}
	for _, i := range invariant.All() {
		kills, seen, _ := read(i.Mutant)
		g.Expect(kills).To(Equal(i.Name), i.Mutant)
		g.Expect(seen).To(ContainElement(i.Bug), i.Mutant)
	}
	var unneeded []string
	for _, f := range run.Families() {
		var bugs []string // of the classes of the family's mutants
		for _, form := range f.Forms() {
			mutant, known := f.Mutants[form.Name]
			if !known {
				unneeded = append(unneeded, form.Name)
				continue
			}
			_, seen, faults := read(mutant)
			bugs = append(bugs, seen...)
			g.Expect(faults).To(ContainElement(MatchRegexp("^"+form.Name+"(-[0-9]+)?$")), mutant)
		}
		if len(f.Mutants) > 0 {
			g.Expect(bugs).To(ContainElement(f.Bug), f.Name)
		}
		if f.Finding != "" {
			g.Expect(foundBy(g, f.Finding)).To(ContainElement(f.Name), f.Finding)
			unneeded = slices.DeleteFunc(unneeded, func(name string) bool { return name == f.Name })
		}
	}
	g.Expect(unneeded).To(BeEmpty(), "forms without a mutant and without a finding")
}

// foundBy returns the families of faults that found a real bug in an operator of other people.
func foundBy(g Gomega, operator string) (families []string) {
	text, err := os.ReadFile(filepath.Join("..", "prove", "others", operator, "known.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var known struct {
		Findings []struct {
			Plan    string `json:"plan"`
			Verdict string `json:"verdict"`
		} `json:"findings"`
	}
	g.Expect(yaml.Unmarshal(text, &known)).To(Succeed(), operator)
	for _, k := range known.Findings {
		if plan, err := run.ParsePlan(k.Plan); err == nil && k.Verdict == "true bug" {
			families = append(families, plan.Family().Name)
		}
	}
	return families
}
