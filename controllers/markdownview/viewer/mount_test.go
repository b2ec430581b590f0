package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// mount is a folder with the layout that the kubelet creates for a mounted ConfigMap: each file is
// a link through ..data, which is a link to a folder named by a time. An update is one rename of
// ..data.
type mount struct {
	dir  string
	turn int
}

func newMount(t *testing.T, files map[string]string) *mount {
	t.Helper()
	m := &mount{dir: t.TempDir()}
	m.update(t, files)
	return m
}

func (m *mount) update(t *testing.T, files map[string]string) {
	t.Helper()
	m.turn++
	data := fmt.Sprintf("..2026_11_21_00_00_%02d.1", m.turn)
	must(t, os.Mkdir(filepath.Join(m.dir, data), 0o755))
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(m.dir, data, name), []byte(content), 0o644))
	}
	old, _ := os.Readlink(filepath.Join(m.dir, "..data")) // an error the first time
	must(t, os.Symlink(data, filepath.Join(m.dir, "..data_tmp")))
	must(t, os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if old == "" {
		return
	}
	gone, err := os.ReadDir(filepath.Join(m.dir, old))
	must(t, err)
	for _, entry := range gone {
		if _, stays := files[entry.Name()]; !stays {
			must(t, os.Remove(filepath.Join(m.dir, entry.Name())))
		}
	}
	must(t, os.RemoveAll(filepath.Join(m.dir, old)))
}

// newHandler returns the handler for a folder. Its log goes to the test.
func newHandler(t *testing.T, dir string) http.Handler {
	t.Helper()
	s := &site{
		books:    &bookCache{dir: dir},
		renderer: &pageRenderer{language: "en"},
		log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	return s.handler()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sample returns the files of a small book.
func sample() map[string]string {
	return map[string]string{
		"SUMMARY.md": "# The book\n\n- [One](one.md)\n  - [Two](two.md#part)\n- [Later]()\n- [Gone](gone.md)\n\n---\n\n# " +
			"More\n\n- [Three](three.md)\n- [One again](one.md)\n",
		"one.md":   "# First page\n\n[two](two.md)\n",
		"two.md":   "# Second page\n",
		"three.md": "# Third page\n",
		"extra.md": "# Not listed\n",
	}
}

// Only links of the kubelet's form are followed: each file's own, through ..data.
func TestOnlyKubeletLinksAreFollowed(t *testing.T) {
	for target, followed := range map[string]bool{
		"..data/page.md":                  true,
		"..data/other.md":                 false, // another file with the same contents
		"..data/../beside/page.md":        false,
		"..data-old/page.md":              false,
		"..data/folder/page.md":           false,
		"./..data/page.md":                false,
		"..2026_11_21_00_00_01.1/page.md": false,
		"../page.md":                      false,
		"..data":                          false,
		"page2.md":                        false,
	} {
		m := newMount(t, map[string]string{"SUMMARY.md": "", "other.md": "other", "page2.md": "two"})
		for _, folder := range []string{"beside", "..data-old", "..data/folder"} {
			must(t, os.MkdirAll(filepath.Join(m.dir, folder), 0o755))
			must(t, os.WriteFile(filepath.Join(m.dir, folder, "page.md"), []byte("secret"), 0o644))
		}
		must(t, os.WriteFile(filepath.Join(m.dir, "..data", "page.md"), []byte("page"), 0o644))
		must(t, os.Symlink(target, filepath.Join(m.dir, "page.md")))
		b, err := (&bookCache{dir: m.dir}).current()
		must(t, err)
		if _, got := b.files["page.md"]; got != followed {
			t.Errorf("page.md is a link to %s: followed %t, want %t", target, got, followed)
		}
	}
}
