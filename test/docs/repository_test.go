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

// Dependabot does not search for modules, and does not report those without an entry.
func TestDependencyUpdates(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	if err := yaml.Unmarshal([]byte(text(t, ".github/dependabot.yml")), &config); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, update := range config.Updates {
		all := slices.Concat(got[update.Ecosystem], update.Directories, []string{update.Directory})
		got[update.Ecosystem] = slices.DeleteFunc(slices.Sorted(slices.Values(all)), func(n string) bool { return n == "" })
	}
	ecosystems := map[string]string{"go.mod": "gomod", "action.yml": "github-actions", "Dockerfile": "docker"}
	want := map[string][]string{"github-actions": {"/"}} // "/" is .github/workflows
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && slices.Contains([]string{".git", "bin", "artifacts", "dist", "testdata"}, e.Name()) {
			return fs.SkipDir
		}
		if err == nil && ecosystems[e.Name()] != "" {
			name := ecosystems[e.Name()]
			want[name] = append(want[name], path.Join("/", path.Dir(file)))
			slices.Sort(want[name])
		}
		return err
	})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf(".github/dependabot.yml (-want +got), error %v:\n%s", err, diff)
	}
}

// pinned is an action at a commit, with its version in a comment.
var pinned = regexp.MustCompile(`(?m)^ *-? *uses: (\./\S+|\S+@[0-9a-f]{40} # v\S+)$`)

// Actions are pinned, and a job has no more permissions than it states. actionlint does not check that.
func TestWorkflows(t *testing.T) {
	workflows, _ := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	actions, _ := filepath.Glob(filepath.Join(root, ".github", "actions", "*", "action.yml"))
	if len(workflows) == 0 || len(actions) == 0 {
		t.Fatal("there are no workflows or no actions")
	}
	for _, file := range append(workflows, actions...) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n, uses := len(pinned.FindAll(content, -1)), strings.Count(string(content), "uses: "); n != uses {
			t.Errorf("%s: %d of %d actions are pinned to a commit, with their version in a comment", file, n, uses)
		}
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Steps       []struct {
					Uses string
					With map[string]any
				}
			}
		}
		if err := yaml.Unmarshal(content, &workflow); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if workflow.Jobs != nil && (workflow.Permissions == nil || len(workflow.Permissions) > 0) {
			t.Errorf("%s: the workflow must have the permissions {}", file)
		}
		for name, job := range workflow.Jobs {
			if job.Permissions == nil {
				t.Errorf("%s: job %s does not state its permissions", file, name)
			}
			for _, s := range job.Steps {
				if strings.HasPrefix(s.Uses, "actions/checkout@") && fmt.Sprint(s.With["persist-credentials"]) != "false" {
					t.Errorf("%s: job %s leaves the token in its checkout", file, name)
				}
			}
		}
	}
}
