// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
)

var update = flag.Bool("update", false, "Rewrite the schemas.")

func TestSchemas_AreThoseOfTheTypes(t *testing.T) {
	for name, tc := range map[string]struct {
		title string
		of    reflect.Type
		have  []byte
	}{
		"subject.json":  {"subject.yaml of prove", reflect.TypeFor[subject.File](), Subject},
		"scenario.json": {"scenario of prove", reflect.TypeFor[scenario.Scenario](), Scenario},
	} {
		g := NewWithT(t)
		want, err := generate(tc.title, tc.of)
		g.Expect(err).NotTo(HaveOccurred())
		if *update {
			g.Expect(os.WriteFile(name, want, 0o600)).To(Succeed())
			continue
		}
		g.Expect(string(tc.have)).To(Equal(string(want)), "run go test ./schema -update")
	}
}

// compile reads a schema, or the part of it at a fragment.
func compile(t *testing.T, text []byte, at string) *jsonschema.Schema {
	t.Helper()
	g := NewWithT(t)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	g.Expect(err).NotTo(HaveOccurred())
	c := jsonschema.NewCompiler()
	g.Expect(c.AddResource("schema.json", document)).To(Succeed())
	compiled, err := c.Compile("schema.json" + at)
	g.Expect(err).NotTo(HaveOccurred())
	return compiled
}

// validate checks YAML by a schema.
func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	g := NewWithT(t)
	asJSON, err := yaml.YAMLToJSON(text)
	g.Expect(err).NotTo(HaveOccurred())
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	g.Expect(err).NotTo(HaveOccurred())
	return s.Validate(document)
}

// The subjects and scenarios are found by their fields, so that a new one is checked too.
func TestSchemas_AcceptAllFilesOfTheRepository(t *testing.T) {
	g := NewWithT(t)
	subjectSchema, scenarioSchema := compile(t, Subject, ""), compile(t, Scenario, "")
	subjects, scenarios := 0, 0
	test := filepath.Join("..", "..") // of the module, and of the repository that it is part of
	g.Expect(filepath.WalkDir(test, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var fields map[string]any
		_ = yaml.Unmarshal(text, &fields) // several documents and templates have no fields
		if _, is := fields["contract"]; is {
			subjects++
			g.Expect(validate(t, subjectSchema, text)).To(Succeed(), path)
		}
		if _, is := fields["steps"]; is {
			scenarios++
			g.Expect(validate(t, scenarioSchema, text)).To(Succeed(), path)
		}
		return nil
	})).To(Succeed())
	g.Expect(subjects).To(BeNumerically(">=", 2), "the module alone has these")
	g.Expect(scenarios).To(BeNumerically(">=", 2))
	t.Logf("%d subjects, %d scenarios", subjects, scenarios)
}

const aSubject = `name: x
binary: bin/manager
manifests: config/default
contract:
  lease: {name: x.example.com}
  kinds: [{group: example.com, resource: things, children: [{resource: configmaps}]}]
  limits: {quiet: 1.5s, unchanged: 5}
except: [{invariant: truthful-readiness, reason: none}]
scenarios: [scenarios]
`

const aScenario = `name: life
invariants: [end-state]
users: [{name: mallory}]
steps:
- refused: true
  as: mallory
  apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- {sleep: 1s}
- name: end
  quiesce: {until: [{object: {apiVersion: v1, kind: Thing, name: a}, condition: Ready}], for: 2s}
`

// What a schema accepts or rejects, the program does too.
func TestSchemas_AgreeWithTheProgram(t *testing.T) {
	readSubject := func(t *testing.T, text []byte) error {
		t.Helper()
		path := filepath.Join(t.TempDir(), "subject.yaml")
		NewWithT(t).Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
		_, err := subject.Read(path)
		return err
	}
	readScenario := func(_ *testing.T, text []byte) error {
		s, err := scenario.Parse(text)
		return errors.Join(err, run.CheckFaults(s))
	}
	for _, kind := range []struct {
		name   string
		schema []byte
		right  string
		read   func(*testing.T, []byte) error
		wrong  map[string][2]string // what is replaced by what
	}{
		{"subject", Subject, aSubject, readSubject, map[string][2]string{
			"unknown field":           {"binary:", "binaries: x\nbinary:"},
			"unknown field of a kind": {"resource: things", "resource: things, finaliser: x"},
			"unknown field of a child": {
				"{resource: configmaps}", "{resource: configmaps, owned: true}"},
			"wrong type":           {"scenarios: [scenarios]", "scenarios: scenarios"},
			"wrong type below":     {"quiet: 1.5s", "quiet: soon"},
			"no list":              {"kinds: [", "kinds: {a: ["},
			"missing name":         {"name: x\n", ""},
			"missing promises":     {"contract:", "args: []\nenv:"},
			"missing lease's name": {"{name: x.example.com}", "{}"},
			"missing resource":     {"{resource: configmaps}", "{controlled: true}"},
			"missing reason":       {", reason: none", ""},
			"unknown invariant":    {"truthful-readiness", "no-such-invariant"},
			"misplaced field":      {"  lease:", "  watched: [{resource: secrets}]\n  lease:"},
		}},
		{"scenario", Scenario, aScenario, readScenario, map[string][2]string{
			"unknown field":           {"invariants:", "should: []\ninvariants:"},
			"unknown action":          {"sleep: 1s", "rest: 1s"},
			"unknown field of a wait": {"condition: Ready", "condition: Ready, reason: x"},
			"wrong type":              {"users: [{name: mallory}]", "users: mallory"},
			"wrong refusal":           {"refused: true", "refused: never"},
			"no duration":             {"for: 2s", "for: 2"},
			"missing name":            {"name: life\n", ""},
			"missing for":             {", for: 2s", ""},
			"missing kind":            {"kind: Thing, ", ""},
			"two actions":             {"{sleep: 1s}", "{sleep: 1s, delete: {apiVersion: v1, kind: Thing, name: a}}"},
			"no action":               {"{sleep: 1s}", "{name: nothing}"},
			"two states":              {"condition: Ready", "condition: Ready, gone: true"},
			"unknown fault":           {"invariants:", "faults: [no-such-fault]\ninvariants:"},
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			g := NewWithT(t)
			s := compile(t, kind.schema, "")
			g.Expect(kind.read(t, []byte(kind.right))).To(Succeed())
			g.Expect(validate(t, s, []byte(kind.right))).To(Succeed())
			for name, by := range kind.wrong {
				text := bytes.Replace([]byte(kind.right), []byte(by[0]), []byte(by[1]), 1)
				if name == "no list" {
					text = bytes.Replace(text, []byte("]}]\n"), []byte("]}]}\n"), 1)
				}
				g.Expect(string(text)).NotTo(Equal(kind.right), name)
				g.Expect(validate(t, s, text)).NotTo(Succeed(), "%s by the schema", name)
				g.Expect(kind.read(t, text)).NotTo(Succeed(), "%s by the program", name)
			}
		})
	}
}
