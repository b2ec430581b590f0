// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkout is a copy of what make needs to parse and clean, beside a folder of somebody else.
type checkout struct{ dir, neighbour, bin string }

// newCheckout creates a checkout at path below a folder of the test. The fake Go builds empty programs.
func newCheckout(t *testing.T, path string) checkout {
	t.Helper()
	root := t.TempDir()
	c := checkout{dir: filepath.Join(root, path), neighbour: filepath.Join(root, "a"),
		bin: filepath.Join(root, "programs")}
	for _, dir := range []string{c.neighbour, c.bin, filepath.Join(c.dir, "bin", "tools"),
		filepath.Join(c.dir, "artifacts"),
		filepath.Join(c.dir, "hack", "tools"), filepath.Join(c.dir, "test", "harness"),
		filepath.Join(c.dir, "test", "integration", "one"), filepath.Join(c.dir, "test", "integration", "two")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(c.neighbour, "thesis.txt"), "precious")
	write(t, filepath.Join(c.dir, "test", "integration", "one", "one.test"), "")
	for from, to := range map[string]string{"../Makefile": "Makefile", "../go.mod": "go.mod", "needs-go.sh": "hack/needs-go.sh",
		"progress.sh": "hack/progress.sh", "tools/go.mod": "hack/tools/go.mod"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.dir, to), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fake := `#!/usr/bin/env bash
case $1 in
env) echo go99.0 ;;
build) until [[ $# -lt 2 || $1 == -o ]]; do shift; done; mkdir -p "$(dirname "$2")"; printf '#!/bin/sh\n' >"$2"; chmod +x "$2" ;;
esac
`
	if err := os.WriteFile(filepath.Join(c.bin, "go"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

// make runs make in dir with nothing of this process's environment, and returns its output.
func (c checkout) make(t *testing.T, dir string, env []string, args ...string) (output string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Dir, cmd.Env = dir, slices.Concat(env, []string{"PATH=" + c.bin + ":" + os.Getenv("PATH"), "S3SERVER=/bin/true"})
	text, err := cmd.CombinedOutput()
	if left, readErr := os.ReadFile(filepath.Join(c.neighbour, "thesis.txt")); readErr != nil || string(left) != "precious" {
		t.Errorf("make %q removed the file of a neighbour: %v\n%s", args, readErr, text)
	}
	if entries, readErr := os.ReadDir(c.neighbour); readErr != nil || len(entries) != 1 {
		t.Errorf("make %q wrote into the folder of a neighbour: %v, %v\n%s", args, entries, readErr, text)
	}
	return string(text), err == nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Make splits paths at spaces, and a shell reads the other characters: each target would work on another path.
func TestMake_RefusesSpecialPaths(t *testing.T) {
	for _, path := range []string{"a b/leasehold", "a\tb/leasehold", "a;b", "a&b", "a'b", "a$b", "a(b", "a:b", "a*", "a#b", "a%b", `a\b`} {
		c := newCheckout(t, path)
		targets := []string{"clean"}
		if path == "a b/leasehold" {
			targets = []string{"clean", "run", "build", "help"}
		}
		for _, target := range targets {
			output, ok := c.make(t, c.dir, nil, target)
			if ok || !strings.Contains(output, "the path of this checkout, ") || !strings.Contains(output, "nothing was done; move") {
				t.Errorf("make %s in %q: success %t, prints\n%s", target, path, ok, output)
			}
			if strings.Count(output, "\n") != 1 {
				t.Errorf("make %s in %q prints more than a sentence:\n%s", target, path, output)
			}
			if exists(filepath.Join(c.dir, "bin", "manager")) || !exists(filepath.Join(c.dir, "artifacts")) {
				t.Errorf("make %s in %q did something", target, path)
			}
		}
	}
}

func TestMake_RefusesSpecialVariables(t *testing.T) {
	c := newCheckout(t, "leasehold")
	for _, name := range []string{"ARTIFACTS", "BIN", "TOOLS", "GO", "KUBECTL"} {
		for _, value := range []string{c.neighbour + " y", "x " + c.neighbour + " --context=y"} {
			for _, target := range []string{"clean", "undeploy"} {
				// BIN and TOOLS of the environment are not read.
				for _, env := range [][]string{nil, {name + "=" + value}} {
					args := []string{target}
					if env == nil {
						args = append(args, name+"="+value)
					} else if name == "BIN" || name == "TOOLS" {
						continue
					}
					output, ok := c.make(t, c.dir, env, args...)
					if ok || !strings.Contains(output, name+`="`+value+`" contains a space or a special character, and nothing was done`) {
						t.Errorf("make %q with %q: success %t, prints\n%s", args, env, ok, output)
					}
				}
			}
		}
	}
	if !exists(filepath.Join(c.dir, "bin")) || !exists(filepath.Join(c.dir, "artifacts")) {
		t.Error("something was removed")
	}
}

// In another folder, bin/ and artifacts/ belong to somebody else.
func TestMake_RefusesAnotherFolder(t *testing.T) {
	c := newCheckout(t, "leasehold")
	output, ok := c.make(t, c.neighbour, nil, "-f", filepath.Join(c.dir, "Makefile"), "clean")
	if ok || !strings.Contains(output, "is not the directory of this Makefile") {
		t.Errorf("success %t, prints\n%s", ok, output)
	}
}

// Of a checkout, make clean removes bin/, artifacts/ and the links to programs of suites, and nothing else.
func TestMake_Clean(t *testing.T) {
	for name, c := range map[string]struct {
		prepare string
		args    []string
		prints  string
	}{
		"nothing special":               {},
		"nothing is there":              {prepare: "rm -rf bin artifacts test/integration"},
		"ARTIFACTS is beside it":        {args: []string{"ARTIFACTS=../a"}, prints: "/a was not removed"},
		"ARTIFACTS is its own":          {args: []string{"ARTIFACTS=artifacts/"}},
		"ARTIFACTS is empty":            {args: []string{"ARTIFACTS="}},
		"ARTIFACTS has its sources":     {args: []string{"ARTIFACTS=hack"}, prints: "leasehold/hack was not removed"},
		"ARTIFACTS is a flag":           {args: []string{"ARTIFACTS=-rf"}, prints: "leasehold/-rf was not removed"},
		"BIN is beside it":              {args: []string{"BIN=../a"}},
		"bin/ is a link":                {prepare: "rm -rf bin; ln -s ../a bin"},
		"artifacts/ is a link":          {prepare: "rm -rf artifacts; ln -s ../a artifacts"},
		"a program is a link of a user": {prepare: "ln -s ../../../../a/thesis.txt test/integration/two/two.test"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newCheckout(t, "leasehold")
			prepare := exec.CommandContext(t.Context(), "bash", "-c", c.prepare)
			prepare.Dir = tree.dir
			if err := prepare.Run(); err != nil {
				t.Fatal(err)
			}
			output, ok := tree.make(t, tree.dir, nil, append([]string{"clean"}, c.args...)...)
			if !ok || !strings.Contains(output, c.prints) || (c.prints == "") == strings.Contains(output, "was not removed") {
				t.Errorf("success %t, prints\n%s", ok, output)
			}
			for _, path := range []string{"bin", "artifacts", "test/integration/one/one.test", "test/integration/two/two.test"} {
				if exists(filepath.Join(tree.dir, path)) {
					t.Errorf("%s is left", path)
				}
			}
			if !exists(filepath.Join(tree.dir, "hack", "needs-go.sh")) {
				t.Error("a source is gone")
			}
		})
	}
}

// The other characters of the refusal would be too many if a usual path failed.
func TestMake_Build(t *testing.T) {
	for _, path := range []string{"leasehold", "lease-hold_1.0+x,y=z@é~", strings.Repeat("long/", 40) + "leasehold"} {
		c := newCheckout(t, path)
		output, ok := c.make(t, c.dir, nil, "build")
		if !ok || !exists(filepath.Join(c.dir, "bin", "manager")) {
			t.Errorf("make build in %q: success %t, prints\n%s", path, ok, output)
		}
	}
}

// Programs of setup-envtest lack kube-controller-manager, and its folder has a space on macOS.
func TestMake_RunNeedsControllers(t *testing.T) {
	for name, c := range map[string]struct{ folder, set, prints string }{
		"without, absolute": {"own", "DIR/own", "run: KUBEBUILDER_ASSETS=DIR/own has no kube-controller-manager"},
		"without, relative": {"own", "own", "run: KUBEBUILDER_ASSETS=DIR/own has no kube-controller-manager"},
		"without, spaces":   {"my own", "DIR/my own", "run: KUBEBUILDER_ASSETS=DIR/my own has no kube-controller-manager"},
		"complete":          {"full", "DIR/full", ""},
		"complete, spaces":  {"full of spaces", "full of spaces", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newCheckout(t, "leasehold")
			here := strings.NewReplacer("DIR", tree.dir)
			if err := os.Mkdir(filepath.Join(tree.dir, c.folder), 0o755); err != nil {
				t.Fatal(err)
			}
			if c.prints == "" {
				write(t, filepath.Join(tree.dir, c.folder, "kube-controller-manager"), "")
			}
			for _, args := range [][]string{{"run"}, {"run", "KUBEBUILDER_ASSETS=" + here.Replace(c.set)}} {
				var env []string
				if len(args) == 1 {
					env = []string{"KUBEBUILDER_ASSETS=" + here.Replace(c.set)}
				}
				output, ok := tree.make(t, tree.dir, env, args...)
				if ok != (c.prints == "") || !strings.Contains(output, here.Replace(c.prints)) {
					t.Errorf("make %q with %q: success %t, prints\n%s", args, env, ok, output)
				}
				if built := exists(filepath.Join(tree.dir, "bin", "manager")); built != ok {
					t.Errorf("make %q with %q: built %t", args, env, built)
				}
			}
		})
	}
}

// A clone with core.autocrlf would have scripts that bash does not read.
func TestGitAttributes(t *testing.T) {
	for _, file := range []string{"hack/unit.sh", "Makefile", ".ci/run", "controllers/tenant/testdata/reconcile.txt"} {
		if got := run(t, `cd .. && git check-attr eol -- "$FILE"`, nil, "FILE="+file); got.stdout != file+": eol: lf" {
			t.Errorf("%+v", got)
		}
	}
}
