// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
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

// book holds the files of a folder at one point in time. It is immutable.
type book struct {
	// version is different after any change in the folder.
	version string
	files   map[string][]byte
	summary render.Summary
	// chapters are the existing files that SUMMARY.md lists, each once, in reading order.
	chapters []string
}

// first returns the file of the front page.
func (b *book) first() string {
	if len(b.chapters) == 0 {
		return markdown.SummaryName
	}
	return b.chapters[0]
}

// neighbours returns the previous and the next chapter of a file; "" if there is none.
func (b *book) neighbours(file string) (previous, next string) {
	i := slices.Index(b.chapters, file)
	if i > 0 {
		previous = b.chapters[i-1]
	}
	if i >= 0 && i+1 < len(b.chapters) {
		next = b.chapters[i+1]
	}
	return previous, next
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
func (s *bookCache) current() (*book, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("opening the directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // what is only read loses nothing at its close
	names, version, err := scan(root)
	if err != nil {
		return nil, err
	}
	if s.book != nil && s.book.version == version {
		return s.book, nil
	}
	read, err := readStable(root, names, version)
	if err != nil {
		return nil, err
	}
	s.book = read
	return read, nil
}

// readStable reads the book, and reads it again if the folder has changed meanwhile. The kubelet
// removes the old files right after it has replaced the link, and a book must not have files of two
// versions. After maxAttempts it returns the last result; the next request finds another version
// and reads again.
func readStable(root *os.Root, names []string, version string) (*book, error) {
	for try := 1; ; try++ {
		read, err := readBook(root, names)
		after, now, lookErr := scan(root)
		if now == version && lookErr == nil || try == maxAttempts {
			if err != nil {
				return nil, err
			}
			read.version = version
			return read, nil
		}
		names, version = after, now
	}
}

// scan returns the Markdown files of a folder, sorted, and a version that is different after any of
// them has changed.
func scan(root *os.Root) (names []string, version string, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, "", fmt.Errorf("listing the directory: %w", err)
	}
	sum := sha256.New()
	target, _ := root.Readlink("..data") // empty in a plain folder
	fmt.Fprintln(sum, target)
	for _, entry := range entries {
		// Stat follows the link. The os.Root rejects links that lead out of the folder.
		info, err := root.Stat(entry.Name())
		if err != nil || !info.Mode().IsRegular() || !markdown.IsFileName(entry.Name()) {
			continue
		}
		names = append(names, entry.Name())
		fmt.Fprintln(sum, entry.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return names, hex.EncodeToString(sum.Sum(nil)), nil
}

// readBook returns a book with these files.
func readBook(root *os.Root, names []string) (*book, error) {
	b := &book{files: map[string][]byte{}}
	for _, name := range names {
		content, err := root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed after the scan
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		b.files[name] = content
	}
	contents, ok := b.files[markdown.SummaryName]
	if !ok {
		return nil, fmt.Errorf("reading %s: %w", markdown.SummaryName, fs.ErrNotExist)
	}
	b.summary = render.Contents(contents)
	for _, entry := range b.summary.Entries {
		if _, ok := b.files[entry.File]; ok && !slices.Contains(b.chapters, entry.File) {
			b.chapters = append(b.chapters, entry.File)
		}
	}
	return b, nil
}

// title returns the title of a page: that of SUMMARY.md, or else the file's name.
func (b *book) title(file string) string {
	for _, entry := range b.summary.Entries {
		if entry.File == file {
			return entry.Title
		}
	}
	return strings.TrimSuffix(file, ".md")
}
