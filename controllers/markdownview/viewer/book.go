// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"leasehold.dev/controllers/markdownview/viewer/markdown"
	"leasehold.dev/controllers/markdownview/viewer/render"
)

// maxAttempts bounds the reads of a folder that changes meanwhile.
const maxAttempts = 10

// maxIndent keeps deeply nested chapters readable on a phone.
const maxIndent = 4

// book holds the files of a folder at one point in time. Only its cached pages change.
type book struct {
	// version is different after any change in the folder.
	version string
	files   map[string][]byte
	summary render.Summary // its links to missing files lead nowhere
	// chapters link to the existing files that SUMMARY.md lists, each once, in reading order. Without one the
	// table of contents is the only chapter.
	chapters []render.Entry

	// pages are cached, up to maxCacheBytes.
	mu     sync.Mutex
	pages  map[string]page
	cached int
}

// entryOf returns the index of the first entry of a file, or -1.
func entryOf(entries []render.Entry, file string) int {
	return slices.IndexFunc(entries, func(entry render.Entry) bool { return entry.File == file })
}

// bookCache caches the book of a folder, and reads it again after a change. The kubelet updates a
// mounted ConfigMap by replacing the link ..data, so the files' sizes and times, read through the
// links, show every change.
type bookCache struct {
	dir string

	mu   sync.Mutex
	book *book
}

// current returns the current book of the folder. It returns an error if the folder or its
// SUMMARY.md cannot be read. A ConfigMap, and so the folder, has at most 1 MiB.
//
// A book is read again if the folder has changed meanwhile. The kubelet removes the old files right
// after it has replaced the link, and a book must not have files of two versions. After maxAttempts
// current returns the last result; the next request finds another version and reads again.
func (s *bookCache) current() (*book, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("opening the directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // what is only read loses nothing at its close
	return s.readUntilStable(root, scan)
}

func (s *bookCache) readUntilStable(root *os.Root, look func(*os.Root) ([]string, string, error)) (*book, error) {
	var err error
	read := cmp.Or(s.book, &book{})
	for range maxAttempts {
		names, version, lookErr := look(root)
		if lookErr != nil {
			return nil, lookErr
		}
		if version == read.version {
			break
		}
		read, err = readBook(root, names, version)
	}
	if err != nil {
		return nil, err
	}
	s.book = read
	return read, nil
}

// scan returns the Markdown files of a folder, sorted, and a version that is different after any of
// them has changed.
func scan(root *os.Root) (names []string, version string, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, "", fmt.Errorf("listing the directory: %w", err)
	}
	var seen strings.Builder
	target, _ := root.Readlink("..data") // empty in a plain folder
	fmt.Fprintln(&seen, target)
	for _, entry := range entries {
		// Stat follows the link. The os.Root rejects links that lead out of the folder.
		info, err := root.Stat(entry.Name())
		if err != nil || !info.Mode().IsRegular() || !markdown.IsFileName(entry.Name()) {
			continue
		}
		names = append(names, entry.Name())
		fmt.Fprintln(&seen, entry.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return names, seen.String(), nil
}

// readBook returns a book with these files. It has the version even if there is an error.
func readBook(root *os.Root, names []string, version string) (*book, error) {
	b := &book{version: version, files: map[string][]byte{}, pages: map[string]page{}}
	for _, name := range names {
		content, err := root.ReadFile(name)
		if err != nil {
			return b, fmt.Errorf("reading %s: %w", name, err)
		}
		b.files[name] = content
	}
	contents, ok := b.files[markdown.SummaryName]
	if !ok {
		return b, fmt.Errorf("reading %s: %w", markdown.SummaryName, fs.ErrNotExist)
	}
	b.summary = render.Contents(contents)
	for i, entry := range b.summary.Entries {
		b.summary.Entries[i].Depth = min(entry.Depth, maxIndent)
		switch _, exists := b.files[entry.File]; {
		case entry.File == "": // a draft, or a link to another web site
		case !exists:
			b.summary.Entries[i].Href = ""
		case entryOf(b.chapters, entry.File) < 0:
			entry.Href = render.PageName(entry.File)
			b.chapters = append(b.chapters, entry)
		}
	}
	if len(b.chapters) == 0 {
		b.chapters = []render.Entry{{File: markdown.SummaryName, Title: strings.TrimSuffix(markdown.SummaryName, ".md")}}
	}
	return b, nil
}
