// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// read decodes a YAML file of the repository.
func read[T any](t *testing.T, name string) T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	var into T
	if err := yaml.Unmarshal(text, &into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return into
}

// foldersWith returns the folders that have a file of this name, in the notation of dependabot.yml.
func foldersWith(t *testing.T, name string) []string {
	t.Helper()
	var folders []string
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() &&
			slices.Contains([]string{".git", "bin", "artifacts", "dist", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		if err == nil && entry.Name() == name {
			folders = append(folders, path.Join("/", path.Dir(file)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(folders)
	return folders
}

// Dependabot does not search for modules, and does not report those without an entry.
func TestDependencyUpdates(t *testing.T) {
	config := read[struct {
		Updates []struct {
			Ecosystem string `json:"package-ecosystem"`
			Directory string
		}
	}](t, ".github/dependabot.yml")
	got := map[string][]string{}
	for _, update := range config.Updates {
		got[update.Ecosystem] = append(got[update.Ecosystem], update.Directory)
		slices.Sort(got[update.Ecosystem])
	}
	want := map[string][]string{
		"gomod":          foldersWith(t, "go.mod"),
		"github-actions": slices.Concat([]string{"/"}, foldersWith(t, "action.yml")), // "/" is .github/workflows
		"docker":         foldersWith(t, "Dockerfile"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf(".github/dependabot.yml (-want +got):\n%s", diff)
	}
}

// step is a step of a job or of an action.
type step struct {
	Uses, Run string
	With      map[string]any
}

// pinned is an action at a commit, with its version in a comment.
var pinned = regexp.MustCompile(`(?m)^ *-? *uses: (\./\S+|\S+@[0-9a-f]{40} # v\S+)$`)

// actionlint does not check these rules.
func TestWorkflows(t *testing.T) {
	workflows, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	actions, actionsErr := filepath.Glob(filepath.Join(root, ".github", "actions", "*", "action.yml"))
	if err != nil || actionsErr != nil || len(workflows) == 0 || len(actions) == 0 {
		t.Fatal(workflows, err, actions, actionsErr)
	}
	for _, file := range append(workflows, actions...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range untrusted(text) {
			t.Errorf("%s: %s", filepath.Base(file), problem)
		}
	}
}

// A pull request runs make test and make e2e, from a line of its own or from a matrix.
func TestWorkflowsRunTheSuites(t *testing.T) {
	for name, want := range map[string]string{"test": "test", "e2e": "e2e"} {
		file := filepath.Join(".github", "workflows", name+".yml")
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n  pull_request:\n") {
			t.Errorf("%s does not run for pull requests", file)
		}
		var targets []string
		for _, job := range read[struct {
			Jobs map[string]struct {
				Strategy struct {
					Matrix struct{ Include []map[string]string }
				}
				Steps []step
			}
		}](t, file).Jobs {
			for _, s := range job.Steps {
				target, isMake := strings.CutPrefix(s.Run, "make ")
				switch {
				case isMake && strings.HasPrefix(target, "${{ matrix.target }}"):
					for _, entry := range job.Strategy.Matrix.Include {
						targets = append(targets, entry["target"])
					}
				case isMake:
					targets = append(targets, target)
				}
			}
		}
		if !slices.Contains(targets, want) {
			t.Errorf("%s runs make %q, want make %s", file, targets, want)
		}
	}
}

// untrusted returns what a workflow or an action trusts unnecessarily.
func untrusted(text []byte) []string {
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Permissions map[string]string
			Steps       []step
		}
		Runs struct{ Steps []step }
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		return []string{err.Error()}
	}
	var problems []string
	if n, uses := len(pinned.FindAll(text, -1)), strings.Count(string(text), "uses: "); n != uses {
		problems = append(problems, fmt.Sprintf("%d of %d actions are pinned to a commit, with their version in a comment", n,
			uses))
	}
	if workflow.Jobs != nil && (workflow.Permissions == nil || len(workflow.Permissions) > 0) {
		problems = append(problems, "the workflow must have the permissions {}")
	}
	for name, job := range workflow.Jobs {
		if job.Permissions == nil {
			problems = append(problems, "job "+name+" does not state its permissions")
		}
		for _, s := range job.Steps {
			if strings.HasPrefix(s.Uses, "actions/checkout@") && fmt.Sprint(s.With["persist-credentials"]) != "false" {
				problems = append(problems, "job "+name+" leaves the token in its checkout")
			}
		}
	}
	return problems
}

func TestUntrusted(t *testing.T) {
	const commit = "de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2"
	good := "permissions: {}\njobs:\n  a:\n    permissions: {contents: read}\n    steps:\n    - uses: actions/checkout@" +
		commit + "\n      with: {persist-credentials: false}\n"
	for name, c := range map[string]struct{ text, want string }{
		"a good one": {good, ""},
		"a tag":      {strings.ReplaceAll(good, commit, "v6"), "0 of 1 actions are pinned"},
		"no version": {strings.ReplaceAll(good, " # v6.0.2", ""), "0 of 1 actions are pinned"},
		"all rights": {strings.ReplaceAll(good, "permissions: {}\n", ""),
			"the workflow must have the permissions {}"},
		"a right for all": {strings.ReplaceAll(good, "permissions: {}\n", "permissions: {contents: read}\n"),
			"the workflow must have the permissions {}"},
		"a job without": {strings.ReplaceAll(good, "    permissions: {contents: read}\n", ""),
			"job a does not state its permissions"},
		"a token in the tree": {strings.ReplaceAll(good, "false", "true"), "job a leaves the token"},
		"an action":           {"runs:\n  steps:\n  - uses: actions/cache@v5\n", "0 of 1 actions are pinned"},
	} {
		got := strings.Join(untrusted([]byte(c.text)), "; ")
		if (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The decisions and tests that the threat model names exist.
func TestSecurityNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("\\]\\(([^)#:]+)|`((?:test|config|controllers|runners)/[^` ]+)`").
		FindAllStringSubmatch(string(text), -1)
	if len(names) < 20 {
		t.Errorf("SECURITY.md names %d files, which is too few to be true", len(names))
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(root, name[1]+name[2])); err != nil {
			t.Errorf("SECURITY.md: %v", err)
		}
	}
}
