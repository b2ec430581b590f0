// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/language"

	"leasehold.dev/controllers/markdownview/viewer/render"
)

var (
	//go:embed assets/page.html
	pageSource string
	//go:embed assets/style.css
	styleSource []byte
	//go:embed assets/icon.svg
	iconSource []byte

	pageTemplate = template.Must(template.New("page").Parse(pageSource))

	// The names contain a hash of the contents, so browsers may cache them without a limit.
	styleName = hashedName("style", styleSource, "css")
	iconName  = hashedName("icon", iconSource, "svg")
)

func hashedName(name string, content []byte, ending string) string {
	return fmt.Sprintf("%s-%s.%s", name, digest(content)[:12], ending)
}

func digest(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// pageData is the input of page.html.
type pageData struct {
	Language, Direction string
	Book, Title         string
	Root                string // the relative path from the page to the front page
	Style, Icon         string
	Navigation          []navigationItem
	Previous, Next      *navigationItem
	Body                template.HTML
}

// rightToLeft are the scripts in use that are written from right to left.
const rightToLeft = "Adlm Arab Aran Hebr Mand Mend Nkoo Rohg Samr Syrc Thaa Yezi"

// direction returns the direction of a language, by the script that its tag names or that it is usually written in.
func direction(tag string) string {
	if script, confidence := language.Make(tag).Script(); confidence > language.No &&
		strings.Contains(rightToLeft, script.String()) {
		return "rtl"
	}
	return "ltr"
}

// navigationItem is a line of the navigation.
type navigationItem struct {
	Title   string
	Href    string // "" for a draft chapter, a part title or a separator
	Kind    string // "chapter", "part" or "separator"
	Indent  int
	Current bool
}

// maxIndent keeps deeply nested chapters readable on a phone.
const maxIndent = 4

// navigation returns the navigation of the page of a file. root is the relative path from the page
// to the front page. Only the first link to the file is marked as current.
func (b *book) navigation(root, file string) []navigationItem {
	var items []navigationItem
	marked := false
	for _, entry := range b.summary.Entries {
		i := navigationItem{Title: entry.Title, Kind: "chapter", Indent: min(entry.Depth, maxIndent)}
		switch entry.Kind {
		case render.Part:
			i.Kind = "part"
		case render.Separator:
			i.Kind = "separator"
		}
		if _, ok := b.files[entry.File]; ok {
			i.Href = root + entry.Href
			i.Current = entry.File == file && !marked
			marked = marked || i.Current
		} else if entry.File == "" {
			i.Href = entry.Href // of another web site
		}
		items = append(items, i)
	}
	return items
}

// pageRenderer renders the pages of a book.
type pageRenderer struct {
	title    string // of the book; "" means the title in SUMMARY.md
	language string

	convert func(markdown []byte) (html []byte, err error)

	// slot is taken while a page is rendered, so the memory is that of one page.
	slot chan struct{}

	// cache holds the pages of one version of the book, up to maxCacheBytes.
	mu      sync.Mutex
	version string
	cache   map[string]page
	cached  int
}

func newPageRenderer(title, language string) *pageRenderer {
	return &pageRenderer{title: title, language: language, convert: render.HTML, slot: make(chan struct{}, 1)}
}

const (
	maxCacheBytes = 8 << 20 // a usual book of 900 KiB
	largePage     = 64 << 10
	pageTimeout   = 10 * time.Second // leaves time to send before the server's deadline
)

// page is the body and the ETag of a response.
type page struct {
	html []byte
	etag string
}

// page returns the page of a file. The error is that of the context if the page is not ready in time.
// Rendering cannot be interrupted: it goes on, and pages that are not cached wait for it.
func (p *pageRenderer) page(ctx context.Context, b *book, file string) (made page, err error) {
	if made, ok := p.find(b, file); ok {
		return made, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	done := make(chan func() (page, error), 1)
	select {
	case p.slot <- struct{}{}:
		go func() {
			made, err := p.render(b, file)
			<-p.slot
			done <- func() (page, error) { return made, err }
		}()
	case <-ctx.Done():
	}
	select {
	case result := <-done:
		return result()
	case <-ctx.Done():
		return page{}, fmt.Errorf("waiting for the page of %s: %w", file, ctx.Err())
	}
}

// find returns a cached page.
func (p *pageRenderer) find(b *book, file string) (page, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	made, ok := p.cache[file]
	return made, ok && p.version == b.version
}

// keep caches a page if there is room.
func (p *pageRenderer) keep(b *book, file string, made page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version != b.version {
		p.version, p.cache, p.cached = b.version, map[string]page{}, 0
	}
	if p.cached+len(made.html) <= maxCacheBytes {
		p.cache[file] = made
		p.cached += len(made.html)
	}
}

// render makes and caches the page of a file, unless an earlier request has. It has a goroutine of its
// own, in which a panic would end the process.
func (p *pageRenderer) render(b *book, file string) (made page, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("rendering the page of %s: panic: %v", file, cause)
		}
	}()
	if made, ok := p.find(b, file); ok {
		return made, nil
	}
	body, err := p.convert(b.files[file])
	if err != nil {
		return page{}, fmt.Errorf("rendering the page of %s: %w", file, err)
	}
	if len(b.files[file]) > largePage {
		// Rendering needed many times the size of the page. Without this call the process would
		// keep that memory for minutes.
		debug.FreeOSMemory()
	}
	if made, err = p.compose(b, "", file, b.title(file), body); err == nil {
		p.keep(b, file, made)
	}
	return made, err
}

// notice returns a page with a message; b may be nil. It has no navigation: that may have a MiB, and
// notices are not cached.
func (p *pageRenderer) notice(b *book, root, title, text string) (page, error) {
	body := "<h1>" + template.HTMLEscapeString(title) + "</h1>\n<p>" + template.HTMLEscapeString(text) + "</p>\n"
	return p.compose(b, root, "", title, []byte(body))
}

// compose renders the page around a body. The ETag is a hash of the whole page, so it changes with
// the text, the navigation and the viewer. file is "" for a page that is not in the book.
func (p *pageRenderer) compose(b *book, root, file, title string, body []byte) (page, error) {
	v := pageData{
		Language: p.language, Direction: direction(p.language), Book: p.title, Title: title,
		Root: root, Style: root + styleName, Icon: root + iconName,
		Body: template.HTML(body), //nolint:gosec // render has escaped what it does not allow
	}
	if b != nil && v.Book == "" {
		v.Book = b.summary.Title
	}
	if file != "" {
		v.Navigation = b.navigation(root, file)
		previous, next := b.neighbours(file)
		v.Previous, v.Next = b.link(previous), b.link(next)
	}
	if v.Book == "" {
		v.Book = "Contents"
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, v); err != nil {
		return page{}, fmt.Errorf("composing the page %q: %w", title, err)
	}
	return page{html: out.Bytes(), etag: `"` + digest(out.Bytes())[:32] + `"`}, nil
}

func (b *book) link(file string) *navigationItem {
	if file == "" {
		return nil
	}
	return &navigationItem{Title: b.title(file), Href: render.PageName(file)}
}
