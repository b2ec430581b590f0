// SPDX-License-Identifier: Apache-2.0

// Package docs tests what documents promise: links and named files exist, documented commands work.
package docs

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// text returns a file of the repository.
func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Links lead to existing files and headings. The zip of the prover's module has no files from outside the module.
func TestLinksOfDocs(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#]*)(#[^)]+)?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "test/harness/*.md", "test/harness/docs/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s (%v)", pattern, err)
		}
		for _, file := range files {
			document, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range links.FindAllStringSubmatch(code.ReplaceAllString(string(document), ""), -1) {
				err := leadsTo(file, link[1], strings.TrimPrefix(link[2], "#"))
				if err != nil && !strings.Contains(link[1], "://") {
					t.Errorf("%s: the link %s%s: %v", file, link[1], link[2], err)
				}
			}
		}
	}
}

// leadsTo returns an error if a link in a file is broken; path is empty for the file itself.
func leadsTo(file, path, heading string) error {
	target := file
	if path != "" {
		target = filepath.Join(filepath.Dir(file), path)
	}
	module := filepath.Join(root, "test", "harness")
	if strings.HasPrefix(file, module) && !strings.HasPrefix(target, module) {
		return errors.New("it leads out of the module")
	}
	if _, err := os.Stat(target); err != nil || heading == "" {
		return err
	}
	document, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(document)) {
		if title := strings.TrimLeft(line, "#"); title != line && anchor(title) == heading {
			return nil
		}
	}
	return errors.New("there is no such heading")
}

// anchor returns the fragment of a heading.
func anchor(title string) string {
	kept := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
	return strings.ReplaceAll(kept, " ", "-")
}

// The code and the tests that docs/mission.md and SECURITY.md name exist: they are the proof of a promise.
func TestNamedCodeExists(t *testing.T) {
	for _, name := range []string{"docs/mission.md", "SECURITY.md"} {
		document := text(t, name)
		paths := regexp.MustCompile("`((?:\\.github|api|config|controllers|hack|runners|test)(?:/[\\w.-]+)+|\\w+\\.go)`").
			FindAllStringSubmatch(document, -1)
		if len(paths) < 10 {
			t.Errorf("%s names %d files, which is too few to be true", name, len(paths))
		}
		for _, path := range paths {
			if _, err := os.Stat(filepath.Join(root, path[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		specs := regexp.MustCompile("`(\\S+_test\\.go)`: (.+?)(?:<br>| \\|)")
		for _, spec := range specs.FindAllStringSubmatch(document, -1) {
			if !strings.Contains(text(t, spec[1]), spec[2]) {
				t.Errorf("%s: %s has no test %q", name, spec[1], spec[2])
			}
		}
	}
}
