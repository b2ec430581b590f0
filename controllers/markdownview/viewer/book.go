package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"leasehold.dev/controllers/markdownview/summary"
)

// What is read of a folder. A ConfigMap holds 1 MiB.
const (
	maxFileBytes = 1 << 20
	maxBookBytes = 4 << 20
	maxFiles     = 1000
	maxTries     = 10 // while the folder changes
)

// book is what a folder held at one moment. It is not changed once read.
type book struct {
	// version changes when anything in the folder does.
	version string
	files   map[string][]byte
	summary summary.Summary
	// chapters are the files that SUMMARY.md lists and that are there, each once, in
	// the order of reading.
	chapters []string
}

// first is the file that the front page shows.
func (b *book) first() string {
	if len(b.chapters) == 0 {
		return summary.FileName
	}
	return b.chapters[0]
}

// neighbours returns the files before and after one, "" where there is none.
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

// shelf keeps the book of a folder and reads it anew when the folder changes. The
// kubelet changes a mounted ConfigMap by pointing the link ..data elsewhere, so a
// look at each file's size and time, through the links, is enough.
type shelf struct {
	dir string

	mu   sync.Mutex
	book *book
}

// current returns the book as the folder is now. It returns an error when the
// folder or its SUMMARY.md cannot be read, or when it holds more than we read.
func (s *shelf) current() (*book, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder: %w", err)
	}
	defer root.Close() //nolint:errcheck // what is only read loses nothing at its close
	names, version, err := look(root)
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

// readStable reads the book, anew when the folder changed meanwhile: the kubelet
// removes the old files right after it has moved the link, and a book must not
// be of both. After some tries it takes what it gets; the next look will see
// that it is not the last version.
func readStable(root *os.Root, names []string, version string) (*book, error) {
	for try := 1; ; try++ {
		read, err := readBook(root, names)
		after, now, lookErr := look(root)
		if now == version && lookErr == nil || try == maxTries {
			if err != nil {
				return nil, err
			}
			read.version = version
			return read, nil
		}
		names, version = after, now
	}
}

// look returns the Markdown files of a folder, sorted, and a version that changes
// when one of them does.
func look(root *os.Root) (names []string, version string, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, "", fmt.Errorf("listing the folder: %w", err)
	}
	sum := sha256.New()
	target, _ := root.Readlink(dataLink) // none in a plain folder
	fmt.Fprintln(sum, target)
	for _, entry := range entries {
		if !summary.IsFileName(entry.Name()) || !mayRead(root, entry) {
			continue
		}
		// Through the link, and never out of the folder: root sees to that.
		info, err := root.Stat(entry.Name())
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if len(names) == maxFiles {
			return nil, "", fmt.Errorf("listing the folder: it holds more than %d Markdown files", maxFiles)
		}
		names = append(names, entry.Name())
		fmt.Fprintln(sum, entry.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return names, hex.EncodeToString(sum.Sum(nil)), nil
}

// dataLink is the link that the kubelet points at the folder with the files of a
// mounted ConfigMap; each file beside it is a link through it.
const dataLink = "..data"

// mayRead says whether an entry is a file, or a link as the kubelet makes them.
// No other link is followed, wherever it leads.
func mayRead(root *os.Root, entry fs.DirEntry) bool {
	switch entry.Type() {
	case 0:
		return true
	case fs.ModeSymlink:
		target, err := root.Readlink(entry.Name())
		return err == nil && target == path.Join(dataLink, entry.Name())
	}
	return false
}

// readBook reads the files into a book.
func readBook(root *os.Root, names []string) (*book, error) {
	b := &book{files: map[string][]byte{}}
	total := 0
	for _, name := range names {
		content, err := readFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since we looked
		}
		if err != nil {
			return nil, err
		}
		if total += len(content); total > maxBookBytes {
			return nil, fmt.Errorf("reading the folder: its Markdown files hold more than %d bytes", maxBookBytes)
		}
		b.files[name] = content
	}
	contents, ok := b.files[summary.FileName]
	if !ok {
		return nil, fmt.Errorf("reading %s: %w", summary.FileName, fs.ErrNotExist)
	}
	b.summary = summary.Parse(contents)
	for _, entry := range b.summary.Entries {
		if _, ok := b.files[entry.File]; ok && !slices.Contains(b.chapters, entry.File) {
			b.chapters = append(b.chapters, entry.File)
		}
	}
	return b, nil
}

// readFile returns the contents of a file, up to maxFileBytes.
func readFile(root *os.Root, name string) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	defer file.Close() //nolint:errcheck // as above
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(content) > maxFileBytes {
		return nil, fmt.Errorf("reading %s: it holds more than %d bytes", name, maxFileBytes)
	}
	return content, nil
}

// title is what a page of the book is called: as SUMMARY.md has it, or by its
// file.
func (b *book) title(file string) string {
	for _, entry := range b.summary.Entries {
		if entry.File == file {
			return entry.Title
		}
	}
	return strings.TrimSuffix(file, ".md")
}
