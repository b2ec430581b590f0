// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smallCheckout makes a checkout in $dir that release.sh accepts.
const smallCheckout = `set -e; mkdir -p "$dir"; cd "$dir"; printf '/dist/\n/.dist-*/\n' > .gitignore
printf 'module fake.example\n\ngo 1.26.0\n' > go.mod; printf 'package main\n\nfunc main() {}\n' > main.go
git() { command git -c user.name=a -c user.email=a@example.com "$@"; }
git init --quiet; git add .; git commit --quiet --message=all; cd - >/dev/null
`

// Invalid input is refused with exit code 2 before a build starts, and a failed build leaves no
// files. `make release REPEAT=1` tests the rest: it needs ko, which takes minutes to build.
func TestReleaseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ prepare, version, registry, want, code string }{
		"no version":      {version: "", want: `version "" is not like v0.1.0`},
		"no v":            {version: "0.1.0", want: `version "0.1.0" is not like v0.1.0`},
		"short":           {version: "v1", want: `version "v1" is not like v0.1.0`},
		"leading zero":    {version: "v0.01.0", want: `version "v0.01.0" is not like v0.1.0`},
		"build metadata":  {version: "v0.1.0+a", want: `version "v0.1.0+a" is not like v0.1.0`},
		"upper case":      {registry: "ghcr.io/Upper", want: `registry "ghcr.io/Upper" is not like`},
		"no host":         {registry: "team", want: `registry "team" is not like`},
		"changed":         {prepare: `echo >> "$dir/main.go"`, want: "the tree is dirty, a release is made of a commit:\n M main.go"},
		"untracked":       {prepare: `touch "$dir/new.go"`, want: "?? new.go"},
		"other commit":    {prepare: `cd "$dir"; git tag v0.1.0; git commit --quiet --allow-empty --message=later; cd -`, want: "tag v0.1.0 is commit"},
		"module versions": {prepare: `cd "$dir"; echo "require fake.example/api v0.0.0" >> go.mod; git commit --quiet --all --message=api; git tag v0.1.0; cd -`, want: "requires fake.example/api v0.0.0: run hack/release/versions.sh v0.1.0"},
		"no checkout":     {prepare: `rm -rf "$dir/.git"`, want: "has no commit"},
		"dist exists":     {prepare: `mkdir "$dir/dist"`, want: "exists: move or remove it first"},
		"does not build":  {prepare: `cd "$dir"; echo x >> main.go; git commit --quiet --all --message=break; cd -`, want: "main.go:4", code: "1"},
		"major version":   {prepare: `cd "$dir"; sed -i 's/fake.example/&\/v2/' go.mod; git commit --quiet --all --message=v2; cd -`, want: "from v2 on", code: "1"},
		"image not built": {want: "ko is broken on purpose", code: "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "checkout")
			version, registry, code := "v0.1.0", "registry.example.com:5000/team", "2"
			if tc.version != "" || strings.HasPrefix(tc.want, "version") {
				version = tc.version
			}
			if tc.registry != "" {
				registry = tc.registry
			}
			if tc.code != "" {
				code = tc.code
			}
			got := run(t, smallCheckout+tc.prepare+"\nrelease/release.sh \"$dir\" \"$dir/dist\" \"$version\" \"$registry\" || echo \"code $?\"",
				map[string]string{"ko": "echo ko is broken on purpose >&2; exit 3"},
				"dir="+dir, "version="+version, "registry="+registry, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
			if !strings.HasSuffix(got.stdout, "code "+code) || !strings.Contains(got.stderr, tc.want) {
				t.Errorf("it prints %q, want code %s with %q in\n%s", got.stdout, code, tc.want, got.stderr)
			}
			left, err := filepath.Glob(filepath.Join(dir, ".dist-*"))
			if _, found := os.Stat(filepath.Join(dir, "dist", "SHA256SUMS")); err != nil || len(left) > 0 || found == nil {
				t.Errorf("it leaves %q behind (%v)", left, err)
			}
		})
	}
}

// The digest of a pushed image must be the one in install.yaml, or the release is not signed.
func TestPush(t *testing.T) {
	const reference = "registry.example.com/team/leasehold"
	dist := t.TempDir()
	fakes := map[string]string{"tar": "true", "crane": `echo "${3%:*}@sha256:${3: -1}"`}
	push := func() result {
		return run(t, "release/push.sh "+dist+" registry.example.com/team v0.1.0", fakes)
	}
	if got := push(); got.ok || !strings.Contains(got.stderr, "install.yaml does not name "+reference+"@sha256:0") {
		t.Errorf("without the digest in install.yaml it prints %q", got.stderr)
	}
	named := reference + "@sha256:0\n" + reference + "-viewer@sha256:0"
	if err := os.WriteFile(filepath.Join(dist, "install.yaml"), []byte(named), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := push(); !got.ok || got.stdout != named {
		t.Errorf("it prints %q, want the references of manager and viewer:\n%s", got.stdout, got.stderr)
	}
}
