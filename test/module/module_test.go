// SPDX-License-Identifier: Apache-2.0

// Package module tests that the modules of a release work in other repositories. It has only tests.
package module

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"leasehold.dev/test/harness/controlplane"
	"leasehold.dev/test/internal/tree"
)

const (
	harness = "leasehold.dev/test/harness"
	root    = "../.."
	source  = "../harness"
	// example is an operator in kubebuilder's layout. A clean run of it has no violations.
	example     = harness + "/testdata/archiver"
	examplePath = "example.com/archiver"
)

// folders are those of the modules that a release tags.
var folders = []string{".", "api", "runners/election", "test/harness", "test/harness/fault"}

// modulePath is the path of the module in a folder of this repository.
func modulePath(folder string) string {
	return path.Join(strings.TrimSuffix(harness, "/test/harness"), folder)
}

// The commands of the README, in a repository without files of the prover, on a machine without a
// control plane. make test skips this test, which needs minutes and downloads.
func TestModule_ProvesInAnotherRepository(t *testing.T) {
	if os.Getenv("MODULE_PROOF") == "" {
		t.Skip("MODULE_PROOF is not set; hack/prove-module.sh sets it")
	}
	g := NewWithT(t)
	proxy, _ := publish(t)
	user := newUser(t, scaffold(t), proxy)
	run := func(code int, name string, args ...string) string {
		t.Helper()
		printed, exit := user.execute(t, name, args...)
		g.Expect(exit).To(Equal(code), "%s %q", name, args)
		return printed
	}
	before, err := os.ReadFile(filepath.Join(user.project, "go.mod"))
	g.Expect(err).NotTo(HaveOccurred())
	run(0, "go", "run", harness+"/cmd/prove@latest", "faults")
	g.Expect(os.ReadFile(filepath.Join(user.project, "go.mod"))).To(Equal(before))
	run(0, "go", "get", "-tool", harness+"/cmd/prove")
	run(0, "go", "build", "-o", "bin/manager", ".")

	printed := run(0, "go", "tool", "prove", "init", "config/default", "--binary", "bin/manager", "--seed", "4")
	g.Expect(printed).To(ContainSubstring("controlplane: built in "))
	for _, program := range []string{"etcd", "kube-apiserver", "kubectl", "kube-controller-manager"} {
		built, err := filepath.Glob(filepath.Join(user.cache, "prove", "controlplane", "v*", program))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(built).To(HaveLen(1))
	}
	g.Expect(printed).To(ContainSubstring("wrote "))
	g.Expect(filepath.Join(user.project, "prove", "subject.yaml")).To(BeARegularFile())
	// The example ignores a lost response to the creation of its Job, and creates a second Job.
	plan := "backup-life:lost-response:POST:/apis/batch/v1/namespaces/default/jobs:1"
	printed = run(1, "go", "tool", "prove", "--seed", "4", "--match", "^"+plan+"$")
	g.Expect(printed).To(And(ContainSubstring("2 clean runs to compare with"),
		ContainSubstring("again: go tool prove --seed=4 --plan='"+plan+"'"),
		ContainSubstring("1 plan, "), ContainSubstring("1 broken")))
	g.Expect(printed).NotTo(ContainSubstring("built in "), "the control plane is built once")
	g.Expect(filepath.Join(user.project, "artifacts", "prove", "junit.xml")).To(BeARegularFile())
	g.Expect(run(1, "go", "tool", "prove", "--seed", "4", "--plan", plan)).To(ContainSubstring("1 broken"))
}

// A module proxy serves a module without nested modules and links, so only the zip shows a missing file.
func TestModule_HasAZip(t *testing.T) {
	publish(t)
}

// A program of another repository imports a package of each module. Update bots and tools that write SBOMs list all
// modules, which fails if one of them requires a version that is not published.
func TestSlowModule_IsImported(t *testing.T) {
	proxy, version := publish(t)
	for folder, pkg := range map[string]string{
		".": "runners/version", "api": "api/v1beta1", "runners/election": "runners/election", "test/harness": "test/harness/env",
		"test/harness/fault": "test/harness/fault",
	} {
		t.Run(modulePath(folder), func(t *testing.T) {
			g := NewWithT(t)
			project := t.TempDir()
			for name, text := range map[string]string{
				"go.mod":  "module example.com/importer\n\ngo 1.26.0\n",
				"main.go": fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", modulePath(pkg)),
			} {
				g.Expect(os.WriteFile(filepath.Join(project, name), []byte(text), 0o600)).To(Succeed())
			}
			user := newUser(t, project, proxy)
			run := func(args ...string) string {
				printed, exit := user.execute(t, "go", args...)
				g.Expect(exit).To(BeZero(), "go %q", args)
				return printed
			}
			run("get", modulePath(pkg)+"@latest")
			run("mod", "tidy")
			list := run("list", "-m", "all")
			g.Expect(list).To(ContainSubstring("\n" + modulePath(folder) + " " + version + "\n"))
			if folder == "api" {
				g.Expect(list).NotTo(ContainSubstring("sigs.k8s.io/controller-runtime "), "an importer of the kinds needs apimachinery alone")
			}
			run("mod", "vendor")
			run("list", "-deps", ".")
		})
	}
}

// The zip has no nested modules, so the builder embeds copies of the go.mod files that dependabot updates.
func TestModule_EmbedsThePins(t *testing.T) {
	g := NewWithT(t)
	for _, name := range []string{"go.mod", "go.sum"} {
		pinned, err := os.ReadFile(filepath.Join("..", "..", "hack", "controlplane", name))
		g.Expect(err).NotTo(HaveOccurred())
		embedded, err := os.ReadFile(filepath.Join(source, "controlplane", "pins", name+".txt"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bytes.Equal(embedded, pinned)).To(BeTrue(),
			"%s differs: cp hack/controlplane/%[1]s test/harness/controlplane/pins/%[1]s.txt", name)
	}
}

// dependabot updates hack's modules, whose versions the checks of this repository use.
func TestModule_PinsTheToolsOfSubjects(t *testing.T) {
	for tool, folder := range map[controlplane.Tool]string{controlplane.Helm: "tools", controlplane.S3Server: "s3server"} {
		g := NewWithT(t)
		pins, err := controlplane.ReadPins(filepath.Join("..", "..", "hack", folder))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(controlplane.Version(pins.Mod, tool.Module)).To(Equal(tool.Version),
			"test/harness/controlplane/install.go has %s %s", tool.Module, tool.Version)
	}
}

// publish puts the modules of a release of this tree into a folder that serves as a module proxy. The version
// depends on the content, because the module cache never replaces a version.
func publish(t *testing.T) (proxy, version string) {
	t.Helper()
	g := NewWithT(t)
	proxy, checkout := t.TempDir(), t.TempDir()
	g.Expect(tree.Copy(root, checkout)).To(Succeed())
	write := func(version string) {
		script := exec.CommandContext(t.Context(), "bash", filepath.Join(checkout, "hack", "release", "versions.sh"), version)
		printed, err := script.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), "%s", printed)
	}
	write("v0.0.1")
	sum := sha256.New()
	for _, folder := range folders {
		g.Expect(zip.CreateFromDir(sum, module.Version{Path: modulePath(folder), Version: "v0.0.1"},
			filepath.Join(checkout, folder))).To(Succeed())
	}
	version = fmt.Sprintf("v0.0.1-zip.h%x", sum.Sum(nil))[:30]
	write(version)
	for _, folder := range folders {
		var content bytes.Buffer
		g.Expect(zip.CreateFromDir(&content, module.Version{Path: modulePath(folder), Version: version},
			filepath.Join(checkout, folder))).To(Succeed())
		mod, err := os.ReadFile(filepath.Join(checkout, folder, "go.mod"))
		g.Expect(err).NotTo(HaveOccurred())
		versions := filepath.Join(proxy, filepath.FromSlash(modulePath(folder)), "@v")
		g.Expect(os.MkdirAll(versions, 0o750)).To(Succeed())
		for name, text := range map[string][]byte{
			"list":            []byte(version + "\n"),
			version + ".info": fmt.Appendf(nil, `{"Version": %q}`, version),
			version + ".mod":  mod,
			version + ".zip":  content.Bytes(),
		} {
			g.Expect(os.WriteFile(filepath.Join(versions, name), text, 0o600)).To(Succeed())
		}
	}
	return proxy, version
}

// scaffold creates a repository with the example's source and the harness's library versions,
// outside the checkout.
func scaffold(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.CopyFS(dir, os.DirFS(filepath.Join(source, "testdata", "archiver")))).To(Succeed())
	// prove init creates these files.
	g.Expect(os.RemoveAll(filepath.Join(dir, "subject.yaml"))).To(Succeed())
	g.Expect(os.RemoveAll(filepath.Join(dir, "scenarios"))).To(Succeed())
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	g.Expect(err).NotTo(HaveOccurred())
	deeper, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.go"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range append(files, deeper...) {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.WriteFile(file, []byte(strings.ReplaceAll(string(text), example, examplePath)), 0o600)).To(Succeed())
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	g.Expect(err).NotTo(HaveOccurred())
	own := strings.Replace(string(mod), "module "+harness, "module "+examplePath, 1)
	own = regexp.MustCompile(`(?m)^.*\b`+regexp.QuoteMeta(harness)+`/.*\n`).ReplaceAllString(own, "") // its nested module
	g.Expect(os.WriteFile(filepath.Join(dir, "go.mod"), []byte(own), 0o600)).To(Succeed())
	sums, err := os.ReadFile(filepath.Join(source, "go.sum"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600)).To(Succeed())
	return dir
}

// user has a project, a home and a cache folder. It shares Go, its settings and its module and
// build caches with this machine.
type user struct {
	project, cache string
	environ        []string
}

func newUser(t *testing.T, project, proxy string) user {
	t.Helper()
	home := t.TempDir()
	u := user{project: project, cache: filepath.Join(home, "cache")}
	for _, variable := range os.Environ() {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "KUBEBUILDER_ASSETS", "XDG_DATA_HOME": // possible places of a control plane
		default:
			u.environ = append(u.environ, variable)
		}
	}
	// By default Go derives these from the home.
	for _, name := range []string{"GOENV", "GOCACHE", "GOMODCACHE", "GOPROXY"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		u.environ = append(u.environ, name+"="+strings.TrimSpace(string(value)))
	}
	last := u.environ[len(u.environ)-1]
	u.environ[len(u.environ)-1] = strings.Replace(last, "=", "=file://"+proxy+",", 1)
	u.environ = append(u.environ, "HOME="+home, "XDG_CACHE_HOME="+u.cache, "GOWORK=off", "GONOSUMDB="+modulePath(""))
	return u
}

// execute runs a program in the project and logs it as in a terminal.
func (u user) execute(t *testing.T, name string, args ...string) (printed string, exit int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = u.project, u.environ
	began := time.Now()
	output, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	exit = command.ProcessState.ExitCode()
	t.Logf("$ %s\n%s(exit code %d after %s)", command, output, exit, time.Since(began).Round(time.Second))
	return string(output), exit
}
