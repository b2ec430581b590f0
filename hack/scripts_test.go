// SPDX-License-Identifier: Apache-2.0

// Package hack has the tests of the scripts in this folder and in .ci. Fake programs replace
// docker, go and runc.
package hack

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// result is the output of a script and whether it succeeded.
type result struct {
	stdout, stderr string
	ok             bool
}

// run runs a bash command in this folder, with fakes in place of the programs they name.
func run(t *testing.T, command string, fakes map[string]string, env ...string) result {
	t.Helper()
	for _, pattern := range []string{"*.sh", "*/*.sh", "../.ci/*", "../Makefile"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("there is no %s: %v", pattern, err)
		}
		for _, file := range files { // otherwise go test would use a result from before a change of it
			if _, err := os.Stat(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	bin := t.TempDir()
	for name, script := range fakes {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/usr/bin/env bash\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "MAKE=make", "DOCKER_HOST=", "E2E_NODE_IMAGE=")
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return result{strings.TrimSpace(stdout.String()), stderr.String(), err == nil}
}

func TestNodeImage(t *testing.T) {
	const (
		built   = "leasehold-node:v0"
		pulls   = `pull) echo "$2: Pulling from there" ;;`
		refuses = `pull) echo "no such host" >&2; exit 1 ;;`
	)
	published := run(t, "sed -n 's/^published=//p' node-image.sh", nil).stdout
	for _, c := range []struct {
		name, cgroup, here, pull, env, make string
		want, prints                        string
		fails                               bool
	}{
		{name: "what is here is taken", here: published, pull: refuses, want: published},
		{name: "what is not here is pulled", pull: pulls, want: published, prints: "pulling " + published},
		{name: "what cannot be pulled is built", pull: refuses, want: built, prints: "no such host"},
		{name: "cgroup v1 needs one that is built", cgroup: "1", here: published, pull: pulls, want: built,
			prints: "cgroup v1"},
		{name: "neither", pull: refuses, make: "exit 2", prints: "E2E_NODE_IMAGE names one of your own", fails: true},
		{name: "the user's own is here", env: "mine:1", here: "mine:1", pull: refuses, want: "mine:1"},
		{name: "the user's own is pulled", env: "mine:1", here: published, pull: pulls, want: "mine:1",
			prints: "pulling mine:1"},
		{name: "nothing in place of the user's own", env: "mine:1", here: published, pull: refuses, prints: "mend the name",
			fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "./node-image.sh", map[string]string{
				"docker": `case $1 in
info) echo "${CGROUP:-2}" ;;
image) [[ $3 == "$HERE" ]] ;;
` + c.pull + `
esac`,
				"builder": c.make + "\necho " + built,
			}, "NODE_IMAGE_BUILDER=builder", "CGROUP="+c.cgroup, "HERE="+c.here, "E2E_NODE_IMAGE="+c.env)
			if got.ok == c.fails || got.stdout != c.want || !strings.Contains(got.stderr, c.prints) {
				t.Errorf("got %+v, want %q and %q", got, c.want, c.prints)
			}
		})
	}
}

func TestNeedsDocker(t *testing.T) {
	for _, c := range []struct {
		name, docker, prints string
		fails                bool
	}{
		{name: "it answers", docker: "echo linux"},
		{name: "it answers and warns", docker: "echo 'no configuration' >&2; echo linux"},
		{name: "it does not answer", docker: "echo 'Is the docker daemon running?' >&2; exit 1",
			prints: "daemon does not respond", fails: true},
		{name: "it may not be used", docker: "echo 'permission denied' >&2; exit 1", prints: "is not allowed to use it", fails: true},
		{name: "another system", docker: "echo windows", prints: "Linux containers are needed", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "./needs-docker.sh", map[string]string{"docker": c.docker})
			if got.ok == c.fails || !strings.Contains(got.stderr, c.prints) {
				t.Errorf("got %+v, want %q", got, c.prints)
			}
		})
	}
}

func needsJQ(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("jq"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("CI is set, and there a missing jq is a failure")
		}
		t.Skip("jq is not installed (apt-get install jq)")
	}
}

// Docker's configuration on hosts with and without CAP_SYS_RESOURCE in the bounding set.
func TestDockerConfiguration(t *testing.T) {
	needsJQ(t)
	const ours = `"default-runtime":"leasehold-host-caps"`
	for _, c := range []struct {
		name, bounding, before, after string
		fails                         bool
	}{
		{name: "all capabilities", bounding: "000001ffffffffff"},
		{name: "no configuration", bounding: "000001fffeffffff",
			after: `{` + ours + `,"runtimes":{"leasehold-host-caps":{"path":"WRAPPER"}}}`},
		{
			name: "the rest stays", bounding: "000001fffeffffff",
			before: `{"log-driver":"local","runtimes":{"crun":{"path":"/crun"}}}`,
			after:  `{` + ours + `,"log-driver":"local","runtimes":{"crun":{"path":"/crun"},"leasehold-host-caps":{"path":"WRAPPER"}}}`,
		},
		{name: "the user's default stays", bounding: "000001fffeffffff", before: `{"default-runtime":"crun"}`,
			after: `{"default-runtime":"crun"}`},
		{name: "what cannot be read stays", bounding: "000001fffeffffff", before: `{"runtimes`, after: `{"runtimes`,
			fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "status"), "Name:\tbash\nCapBnd:\t"+c.bounding+"\n")
			if c.before != "" {
				write(t, filepath.Join(dir, "daemon.json"), c.before)
			}
			got := run(t, `source ../.ci/docker; status=$DIR/status config=$DIR/daemon.json wrapper=$DIR/wrapper; if withheld; then wrap; fi`, nil, "DIR="+dir)
			if got.ok == c.fails {
				t.Errorf("got %+v", got)
			}
			after := run(t, `jq --compact-output --sort-keys . "$DIR/daemon.json" || cat "$DIR/daemon.json"`, nil,
				"DIR="+dir).stdout
			if diff := cmp.Diff(strings.ReplaceAll(c.after, "WRAPPER", dir+"/wrapper"), after); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			wrapped := strings.Contains(c.after, ours)
			if _, err := os.Stat(filepath.Join(dir, "wrapper")); (err == nil) != wrapped {
				t.Errorf("the wrapper is there: %v, want %v", err == nil, wrapped)
			}
		})
	}
}

// kustomize returns a folder with a fake one, which prints a comment with the overlay and its images.
func kustomize(t *testing.T) string {
	t.Helper()
	tools := t.TempDir()
	text := `#!/usr/bin/env bash
case $1 in
edit) sed -n "s/.*--default-viewer-image=/ $4 /p" manager.yaml >images ;;
build) printf '%s\n' 'kind: Namespace' 'metadata:' '  labels:' '    name: x' '  name: platform-ops' \
  --- "# $(basename "$2")$(cat "${2%/*}/manager/images" 2>/dev/null)" \
  'kind: Service' 'metadata:' '  name: webhooks' '  namespace: platform-ops' ;;
esac
`
	if err := os.WriteFile(filepath.Join(tools, "kustomize"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return tools
}

// An overlay may have another namespace. It is deleted, with its Lease, before the rest of the overlay.
func TestDeployment(t *testing.T) {
	tools := kustomize(t)
	for target, want := range map[string]string{
		"install":   "apply --server-side -f -: # crd",
		"uninstall": "delete --ignore-not-found -f -: # crd",
		"deploy":    "apply --server-side --force-conflicts -f -: # ops controller=a:1 b:1",
		"undeploy": "delete namespace --ignore-not-found platform-ops\n" +
			"delete --ignore-not-found -f -: # ops controller=a:1 b:1",
	} {
		const kubectl = `case $* in
*"-f -") echo "$*: $(grep '^#')" ;;
"delete "*) echo "$*" ;;
esac`
		got := run(t, `make --no-print-directory -C .. $TARGET TOOLS="$DIR" OVERLAY=config/ops IMG=a:1 VIEWER_IMG=b:1`,
			map[string]string{"kubectl": kubectl}, "DIR="+tools, "TARGET="+target)
		if !got.ok || got.stdout != want {
			t.Errorf("make %s: got %+v, want %q", target, got, want)
		}
	}
}

// Nothing is deleted while there may be objects that only the operator removes.
func TestDeploymentIsKept(t *testing.T) {
	tools := kustomize(t)
	for _, c := range [][2]string{
		{`"get tenants.leasehold.dev --output=name") echo tenant/sample ;;`, "There are still Tenants"},
		{`"get storagebuckets.leasehold.dev --all-namespaces "*'managementPolicy=="Manage"'*) echo team/photos Delete ;;`,
			"\nteam/photos Delete\n"},
		{`"get customresourcedefinition "* | version) echo "no route to host" >&2; exit 1 ;;`, "no route to host"},
	} {
		for _, target := range []string{"uninstall", "undeploy"} {
			got := run(t, `make --no-print-directory -C .. $TARGET TOOLS="$DIR"`, map[string]string{
				"kubectl": "case $* in\n" + c[0] + "\n*delete*) echo \"$*\" ;;\nesac",
			}, "DIR="+tools, "TARGET="+target)
			if got.ok || got.stdout != "" || !strings.Contains(got.stderr, c[1]) {
				t.Errorf("make %s: got %+v, want a refusal with %q", target, got, c[1])
			}
		}
	}
}

func TestDockerBuild(t *testing.T) {
	got := run(t, `make -s --no-print-directory -C .. docker-build IMG=a:1 VIEWER_IMG=b:1 \
  CONTAINER_TOOL=docker DOCKER_BUILD_FLAGS=`, map[string]string{"docker": `echo "$*"`})
	if want := "build -t a:1 .\nbuild -t b:1 --target viewer ."; !got.ok || got.stdout != want {
		t.Errorf("got %+v, want %q", got, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The vulnerability database is on another host than all other dependencies.
func TestVulncheck(t *testing.T) {
	for name, c := range map[string]struct {
		exit, prints string
		ok           bool
	}{
		"nothing is found":         {"0", "", true},
		"a vulnerability is found": {"3", "calls known vulnerabilities", false},
		"the database does not answer": {"1",
			"nothing was checked: govulncheck failed (above). It needs the database at https://db.example.com", false},
		"it crashes": {"2", "nothing was checked", false},
	} {
		got := run(t, `./vulncheck.sh govulncheck`, map[string]string{"govulncheck": `echo "$*"; exit ` + c.exit},
			"GOVULNDB=https://db.example.com")
		if got.ok != c.ok || !strings.Contains(got.stderr, c.prints) || (c.prints == "") != (got.stderr == "") {
			t.Errorf("%s: success %t, prints %q; want %t and %q", name, got.ok, got.stderr, c.ok, c.prints)
		}
		if want := "-db https://db.example.com ./..."; got.stdout != want {
			t.Errorf("%s: called with %q, want %q", name, got.stdout, want)
		}
	}
}

// The build cache of a developer is not emptied. The copy of the script ends where it would install Docker.
func TestCI_KeepsTheBuildCache(t *testing.T) {
	for name, c := range map[string]struct {
		ci, blocks string
		cleans     bool
	}{
		"a developer's, full": {"", "1048576", false},
		"of CI, full":         {"true", "1048576", true},
		"of CI, empty":        {"true", "99999999", false},
		// The disk has no room for another cache, but a cache that is emptied costs ten minutes and more.
		"of CI, enough with a cache": {"true", "9437184", false},
	} {
		got := run(t, `mkdir $DIR/.ci && cp ../.ci/run $DIR/.ci && $DIR/.ci/run; cat $DIR/go`, map[string]string{
			"go": `echo "$*" >>"$DIR/go"`, "df": `printf 'head\na b c %s\n' "$BLOCKS"`, "apt-get": "", "chromium": "", "jq": "",
		}, "DIR="+t.TempDir(), "CI="+c.ci, "BLOCKS="+c.blocks)
		if cleans := strings.Contains(got.stdout, "\nclean -cache"); cleans != c.cleans || !strings.Contains(got.stdout, "=== Docker") {
			t.Errorf("%s: cleans %t, want %t; it prints\n%s%s", name, cleans, c.cleans, got.stdout, got.stderr)
		}
	}
}

// Without kube-controller-manager, as with the programs of setup-envtest, the prover cannot run.
func TestProveSmoke_withoutControllers(t *testing.T) {
	for name, c := range map[string]struct {
		programs, env, want string
	}{
		"of setup-envtest": {"etcd kube-apiserver kubectl", "", "KUBEBUILDER_ASSETS has no kube-controller-manager"},
		"complete":         {"etcd kube-apiserver kubectl kube-controller-manager", "", "the prover runs"},
		"existing cluster": {"", "USE_EXISTING_CLUSTER=true", "USE_EXISTING_CLUSTER is true"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program := range strings.FieldsSeq(c.programs) {
				write(t, filepath.Join(dir, program), "")
			}
			// The fake Go builds a prover that reports that it runs.
			got := run(t, `unset MAKEFLAGS MAKEOVERRIDES K8S; make --no-print-directory -C .. prove SMOKE=1 \
  GO=fakego S3SERVER=/bin/true TOOLS="$DIR" KUBEBUILDER_ASSETS="$DIR" `+c.env, map[string]string{
				"fakego": `case $1 in
env) echo go99.0 ;;
build) printf '#!/bin/sh\necho the prover runs\n' >"$3" && chmod +x "$3" ;;
*) echo "$*" >&2; exit 1 ;;
esac`}, "DIR="+dir)
			if !got.ok || !strings.Contains(got.stdout, c.want) || strings.Contains(got.stderr, "building") {
				t.Errorf("got %+v, want %q", got, c.want)
			}
		})
	}
}
