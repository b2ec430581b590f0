// Package mutants holds the mutants to the tree. It has tests only.
package mutants

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/mutants"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/tree"
)

// A change of the operator may move the lines that a mutant changes. Then the mutant has to follow.
// A wrong name of a scenario would otherwise fail after half an hour.
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

// What `prove faults` and `prove invariants` name is in this repository.
func TestMutants_AreWhatTheListsName(t *testing.T) {
	g := NewWithT(t)
	var classes []struct {
		Name string   `json:"name"`
		Seen []string `json:"seen"`
	}
	text, err := os.ReadFile("classes.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.Unmarshal(text, &classes)).To(Succeed())
	// read returns what a mutant is killed by, and the families of its plans.
	read := func(name, bug string) (kills string, families []string) {
		text, err := os.ReadFile(filepath.Join("patches", name+".patch"))
		g.Expect(err).NotTo(HaveOccurred())
		var head struct {
			Class, Bug, Kills, Change string
			Plans                     []string
		}
		g.Expect(tree.Header(text, &head)).To(Succeed(), name)
		var seen []string
		for _, c := range classes {
			if c.Name == head.Class {
				seen = c.Seen
			}
		}
		g.Expect(seen).To(ContainElement(bug), "%s is of class %s", name, head.Class)
		for _, id := range head.Plans {
			if plan, err := run.ParsePlan(id); err == nil { // else a scenario without a fault
				families = append(families, plan.Family().Name)
			}
		}
		return head.Kills, families
	}
	for _, i := range invariant.All() {
		kills, _ := read(i.Mutant, i.Bug)
		g.Expect(kills).To(Equal(i.Name), i.Mutant)
	}
	for _, f := range run.Families() {
		g.Expect(f.Mutant+f.Finding).NotTo(BeEmpty(), "nothing needed "+f.Name)
		if f.Mutant != "" {
			_, families := read(f.Mutant, f.Bug)
			g.Expect(families).To(ContainElement(f.Name), f.Mutant)
		}
		if f.Finding != "" {
			g.Expect(foundBy(g, f.Finding)).To(ContainElement(f.Name), f.Finding)
		}
	}
}

// foundBy returns the families of faults that have found a true bug in an operator of other people.
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
