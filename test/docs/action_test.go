// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// actionlint does not check the scripts of actions. These tests run them with a fake prove that
// prints its arguments.
func TestProveAction(t *testing.T) {
	for name, tc := range map[string]struct {
		shards, flags, code string
		want                map[string]string
		argv                string
	}{
		"all": {code: "0", want: map[string]string{"name": "prove-reports", "code": "0"},
			argv: "--subject=prove/subject.yaml --dir=artifacts/prove --seed=12 --shard="},
		"a shard with findings": {shards: "2/8", flags: "--smoke --seed=7", code: "1",
			want: map[string]string{"name": "prove-2-of-8-reports", "code": "1"},
			argv: "--subject=prove/subject.yaml --dir=artifacts/prove --seed=12 --shard=2/8 --smoke --seed=7"},
		"no work done": {code: "2", want: map[string]string{"name": "prove-reports", "code": "2"},
			argv: "--subject=prove/subject.yaml --dir=artifacts/prove --seed=12 --shard="},
	} {
		t.Run(name, func(t *testing.T) {
			prove := filepath.Join(t.TempDir(), "prove")
			if err := os.WriteFile(prove, []byte("#!/bin/sh\nshift\necho \"$@\"\nexit "+tc.code+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			argv, code, outputs := runStep(t, "prove", "COMMAND="+prove+" run", "SUBJECT=prove/subject.yaml",
				"FLAGS="+tc.flags, "SHARD="+tc.shards, "GITHUB_RUN_ID=12")
			if argv != tc.argv || code != tc.want["code"] {
				t.Errorf("prove got %q, and the step ended with %s", argv, code)
			}
			if diff := cmp.Diff(tc.want, outputs); diff != "" {
				t.Errorf("outputs (-want +got):\n%s", diff)
			}
		})
	}
	_, _, outputs := runStep(t, "version", "COMMAND=echo prove v0.1.0 (Kubernetes v1.36.3, go1.26.0, linux/amd64)")
	if got, want := outputs["key"], "prove-v0.1.0--Kubernetes-v1.36.3--go1.26.0--linux-amd64----version"; got != want {
		t.Errorf("the key of the cache is %q, want %q", got, want)
	}
}

// runStep runs the script of a step as a runner does, and returns what it printed, its exit code and
// its outputs.
func runStep(t *testing.T, id string, env ...string) (printed, code string, outputs map[string]string) {
	t.Helper()
	action := read[struct {
		Runs struct {
			Steps []struct{ ID, Run string }
		}
	}](t, ".github/actions/prove/action.yml")
	script := ""
	for _, s := range action.Runs.Steps {
		if s.ID == id {
			script = s.Run
		}
	}
	if script == "" {
		t.Fatalf("no step has the ID %s", id)
	}
	output := filepath.Join(t.TempDir(), "output")
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), append(env, "GITHUB_OUTPUT="+output)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	outputs = map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		outputs[name] = value
	}
	return strings.TrimSpace(string(out)), strings.TrimPrefix(cmd.ProcessState.String(), "exit status "), outputs
}
