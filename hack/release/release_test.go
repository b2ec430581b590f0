package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	spdxjson "github.com/spdx/tools-golang/json"
)

// files are a small operator: what hack/release expects of a checkout, and no more.
var files = map[string]string{
	"go.mod":                                "module fake.example\n\ngo 1.26.0\n",
	"main.go":                               "package main\n\nfunc main() { println(\"manager\") }\n",
	"controllers/markdownview/viewer/v.go":  "package main\n\nfunc main() { println(\"viewer\") }\n",
	"hack/render.sh":                        "#!/bin/sh\necho \"$2 $3 $4\"\n",
	".gitignore":                            "/dist/\n/.dist-*/\n",
	"config/chart/values.yaml":              "images:\n  manager:\n    repository: leasehold\n    digest: \"\"\n  viewer:\n    repository: leasehold-viewer\n    digest: \"\"\n",
	"config/chart/Chart.yaml":               "name: fake\n",
	"config/chart/templates/deployment.yml": "kind: Deployment\n",
}

// fakeHelm packs as helm does: files have the time at which it runs, and here even another
// time in each run.
const fakeHelm = `#!/bin/sh
mkdir -p "$4"
echo "version: $6" >> "$2/Chart.yaml"
find "$2" -exec touch -d "@$$" {} +
tar -czf "$4/fake-$6.tgz" -C "$2/.." chart/Chart.yaml chart/values.yaml chart/templates/deployment.yml
`

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git",
		append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_CONFIG_GLOBAL=/dev/null")
	printed, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, printed)
	}
	return strings.TrimSpace(string(printed))
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// checkout makes a checkout of the small operator in dir.
func checkout(t *testing.T, dir string) {
	t.Helper()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text, 0o755)
	}
	git(t, dir, "init", "--quiet")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "--message=all")
}

// made runs the program on a checkout and returns its exit code and what it prints.
func made(t *testing.T, dir string, args ...string) (code int, printed string) {
	t.Helper()
	helm := filepath.Join(t.TempDir(), "helm")
	write(t, helm, fakeHelm, 0o755)
	var log bytes.Buffer
	all := append([]string{"-version=v0.1.0", "-registry=registry.example.com/team", "-source=" + dir,
		"-out=" + filepath.Join(dir, "dist"), "-helm=" + helm}, args...)
	code = command(t.Context(), all, &log)
	return code, log.String()
}

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(text)
	}
	return all
}

// Two clones in folders of other names give the same bytes, also with untracked files beside
// them and with other compiler flags in the environment.
func TestTwoFoldersGiveTheSameBytes(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "another", "folder")
	checkout(t, first)
	// As a workflow checks out: without history.
	git(t, ".", "clone", "--quiet", "--depth=1", "file://"+first, second)
	if code, printed := made(t, first); code != 0 {
		t.Fatalf("exit code %d\n%s", code, printed)
	}
	write(t, filepath.Join(second, ".git", "info", "exclude"), "ignored.go\n", 0o644)
	write(t, filepath.Join(second, "ignored.go"), "package main\n\nfunc init() { println(\"ignored\") }\n", 0o644)
	t.Setenv("GOFLAGS", "-buildvcs=false -tags=netgo")
	t.Setenv("GOAMD64", "v3")
	t.Setenv("TZ", "Asia/Tokyo")
	if code, printed := made(t, second); code != 0 {
		t.Fatalf("exit code %d\n%s", code, printed)
	}
	one, two := contents(t, filepath.Join(first, "dist")), contents(t, filepath.Join(second, "dist"))
	if diff := cmp.Diff(one["SHA256SUMS"], two["SHA256SUMS"]); diff != "" {
		t.Error(diff)
	}
	for name := range one {
		if one[name] != two[name] {
			t.Errorf("%s differs", name)
		}
		if strings.Contains(one[name], first) {
			t.Errorf("%s contains the folder that it was built in", name)
		}
	}
	left, err := filepath.Glob(filepath.Join(first, ".dist-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %q (%v)", left, err)
	}
}

func TestRelease(t *testing.T) {
	dir := t.TempDir()
	checkout(t, dir)
	if code, printed := made(t, dir); code != 0 {
		t.Fatalf("exit code %d\n%s", code, printed)
	}
	dist := filepath.Join(dir, "dist")
	all := contents(t, dist)
	commit := git(t, dir, "rev-parse", "HEAD")

	sums := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = dist
	if printed, err := sums.CombinedOutput(); err != nil || strings.Count(string(printed), ": OK") != len(all)-1 {
		t.Errorf("sha256sum --check: %v\n%s", err, printed)
	}
	var want []string
	for _, p := range programs {
		want = append(want, p.name+"-image.tar")
		for _, arch := range architectures {
			want = append(want, p.binary(arch), p.binary(arch)+".spdx.json")
			info, err := buildinfo.ReadFile(filepath.Join(dist, p.binary(arch)))
			if err != nil {
				t.Fatal(err)
			}
			if text := info.String(); info.Main.Version != "v0.1.0" || !strings.Contains(text, "vcs.revision="+commit) ||
				!strings.Contains(text, "GOARCH="+arch) {
				t.Errorf("%s:\n%s", p.binary(arch), text)
			}
		}
	}
	want = append(want, "install.yaml", "fake-0.1.0.tgz", "SHA256SUMS")
	for _, name := range want {
		if all[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d files, want %q", len(all), want)
	}
	if tags := git(t, dir, "tag"); tags != "" {
		t.Errorf("the checkout got the tag %s", tags)
	}
	images := fmt.Sprintf("config/default registry.example.com/team/leasehold@%s registry.example.com/team/leasehold-viewer@%s\n",
		testArchive(t, dist, manager), testArchive(t, dist, viewer))
	if all["install.yaml"] != images {
		t.Errorf("install.yaml is\n%s, want\n%s", all["install.yaml"], images)
	}
}

// testArchive checks an archive as an OCI layout and as docker load reads it, and
// returns the digest of its index.
func testArchive(t *testing.T, dist string, p program) string {
	t.Helper()
	dir, archive := t.TempDir(), filepath.Join(dist, p.name+"-image.tar")
	if printed, err := exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, printed)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := outer.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("%+v (%v), want one index", top, err)
	}
	if got, want := top.Manifests[0].Annotations["io.containerd.image.name"],
		"registry.example.com/team/"+p.image+":v0.1.0"; got != want {
		t.Errorf("containerd would name it %q, want %q", got, want)
	}
	index, err := outer.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var saved tarball.Manifest
	if err := json.Unmarshal(text, &saved); err != nil || len(saved) != len(architectures) {
		t.Fatalf("manifest.json: %v\n%s", err, text)
	}
	for i, arch := range architectures {
		image, err := index.Image(inner.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.Config.User != "65532:65532" ||
			!slices.Equal(config.Config.Entrypoint, []string{"/" + p.name}) ||
			len(config.Config.ExposedPorts) != len(p.ports) ||
			!inner.Manifests[i].Platform.Equals(v1.Platform{OS: "linux", Architecture: arch}) {
			t.Errorf("%+v of %+v", config, inner.Manifests[i])
		}
		if want := []string{"registry.example.com/team/" + p.image + ":v0.1.0-" + arch}; !slices.Equal(saved[i].RepoTags,
			want) {
			t.Errorf("docker load would name it %q, want %q", saved[i].RepoTags, want)
		}
		for _, file := range append(saved[i].Layers, saved[i].Config) {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Errorf("manifest.json names what is not there: %v", err)
			}
		}
	}
	return top.Manifests[0].Digest.String()
}

func TestSBOM(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manager-linux-amd64"), "", 0o755)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "manager-linux-amd64"), string(binary), 0o755)
	r := &release{options: options{version: "v0.1.0"}, dist: dir}
	if err := r.writeSBOM(manager, "amd64"); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(dir, "manager-linux-amd64.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	document, err := spdxjson.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := sumOf(self)
	if err != nil {
		t.Fatal(err)
	}
	if document.SPDXVersion != "SPDX-2.3" || document.Packages[0].PackageChecksums[0].Value != sum {
		t.Errorf("%s, %+v, want SPDX-2.3 and the sum of the binary", document.SPDXVersion, document.Packages[0])
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for i, module := range info.Deps {
		got := document.Packages[i+2].PackageExternalReferences[0].Locator
		if want := "pkg:golang/" + module.Path + "@" + module.Version; got != want {
			t.Errorf("package %d is %s, want %s", i+2, got, want)
		}
	}
	if got, want := len(document.Packages), len(info.Deps)+2; got != want || len(document.Relationships) != want {
		t.Errorf("%d packages and %d relationships, want %d of each", got, len(document.Relationships), want)
	}
}

// Bad input is refused before anything is built, with the exit code 2.
func TestBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		args    []string
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"NoVersion":     {args: []string{"-version="}, want: "no version: make release VERSION=v0.1.0"},
		"NoV":           {args: []string{"-version=0.1.0"}, want: `version "0.1.0" is not like v0.1.0`},
		"Short":         {args: []string{"-version=v1"}, want: `version "v1" is not like v0.1.0`},
		"BuildMetadata": {args: []string{"-version=v0.1.0+a"}, want: `version "v0.1.0+a" is not like v0.1.0`},
		"NoRegistry":    {args: []string{"-registry="}, want: "no registry: make release REGISTRY="},
		"Registry":      {args: []string{"-registry=ghcr.io/Upper"}, want: `registry "ghcr.io/Upper" is not like`},
		"NoHost":        {args: []string{"-registry=team"}, want: `registry "team" is not like`},
		"Flag":          {args: []string{"-no-such-flag"}, want: "no-such-flag"},
		"Changed": {want: "the tree is dirty, a release is made of a commit:\n M main.go",
			prepare: func(t *testing.T, dir string) {
				t.Helper()
				write(t, filepath.Join(dir, "main.go"), "package main\n", 0o755)
			}},
		"Untracked": {want: "?? new.go", prepare: func(t *testing.T, dir string) {
			t.Helper()
			write(t, filepath.Join(dir, "new.go"), "package main\n", 0o755)
		}},
		"OtherCommit": {want: "tag v0.1.0 is commit", prepare: func(t *testing.T, dir string) {
			t.Helper()
			git(t, dir, "tag", "v0.1.0")
			git(t, dir, "commit", "--quiet", "--allow-empty", "--message=later")
		}},
		"NoCheckout": {want: "finding the commit", prepare: func(t *testing.T, dir string) {
			t.Helper()
			if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			checkout(t, dir)
			if tc.prepare != nil {
				tc.prepare(t, dir)
			}
			code, printed := made(t, dir, tc.args...)
			if code != 2 || !strings.Contains(printed, tc.want) {
				t.Errorf("exit code %d, want 2 with %q in\n%s", code, tc.want, printed)
			}
			nothingMade(t, dir)
		})
	}
}

func nothingMade(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"dist", ".dist-*"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) > 0 {
			t.Errorf("left over: %q (%v)", found, err)
		}
	}
}

// A dist that is there stays as it is.
func TestExistingDistIsKept(t *testing.T) {
	dir := t.TempDir()
	checkout(t, dir)
	write(t, filepath.Join(dir, "dist", "kept"), "kept", 0o644)
	code, printed := made(t, dir)
	if code != 2 || !strings.Contains(printed, "exists: move or remove it first") {
		t.Errorf("exit code %d, want 2\n%s", code, printed)
	}
	if diff := cmp.Diff(map[string]string{"kept": "kept"}, contents(t, filepath.Join(dir, "dist"))); diff != "" {
		t.Error(diff)
	}
}

// A build that fails, early or late, leaves no dist.
func TestFailedBuildLeavesNothing(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"Compile": {"main.go", "package main\n\nfunc main() { absent() }\n", "undefined: absent"},
		"Render":  {"hack/render.sh", "#!/bin/sh\necho broken on purpose >&2\nexit 1\n", "broken on purpose"},
		"Chart": {"config/chart/values.yaml", "images: {}\n",
			"values.yaml has no repository leasehold with an empty digest"},
		"MajorVersion": {"go.mod", "module fake.example/v2\n\ngo 1.26.0\n", "and not v0.1.0: from v2 on"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			checkout(t, dir)
			write(t, filepath.Join(dir, tc.file), tc.text, 0o755)
			git(t, dir, "commit", "--quiet", "--all", "--message=break")
			code, printed := made(t, dir)
			if code != 1 || !strings.Contains(printed, tc.want) {
				t.Errorf("exit code %d, want 1 with %q in\n%s", code, tc.want, printed)
			}
			nothingMade(t, dir)
		})
	}
}
