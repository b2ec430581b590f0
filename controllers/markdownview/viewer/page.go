// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"html/template"
	"runtime/debug"
	"strings"
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
	styleName = "style-" + digest(styleSource)[:12] + ".css"
	iconName  = "icon-" + digest(iconSource)[:12] + ".svg"
)

// digest returns the hash of a content.
func digest(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// pageData is the input of page.html.
type pageData struct {
	Language, Direction string
	Book, Title         string
	Root                string // the relative path from the page to the front page
	Style, Icon         string
	Navigation          []render.Entry
	Current             int // the first entry of the navigation that leads to the page, or -1
	Previous, Next      *render.Entry
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

// pageRenderer renders the pages of a book.
type pageRenderer struct {
	title    string // of the book; "" means the title in SUMMARY.md
	language string

	convert func(markdown []byte) (html []byte)

	// slot is taken while a page is rendered, so the memory is that of one page.
	slot chan struct{}
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
	if made, ok := b.find(file); ok {
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
func (b *book) find(file string) (page, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	made, ok := b.pages[file]
	return made, ok
}

// keep caches a page if there is room.
func (b *book) keep(file string, made page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cached+len(made.html) <= maxCacheBytes {
		b.pages[file] = made
		b.cached += len(made.html)
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
	if made, ok := b.find(file); ok {
		return made, nil
	}
	v := pageData{Title: strings.TrimSuffix(file, ".md"), Navigation: b.summary.Entries,
		Current: entryOf(b.summary.Entries, file)}
	if i := entryOf(b.chapters, file); i >= 0 {
		v.Title = b.chapters[i].Title
		if i > 0 {
			v.Previous = &b.chapters[i-1]
		}
		if i+1 < len(b.chapters) {
			v.Next = &b.chapters[i+1]
		}
	}
	v.Body = template.HTML(p.convert(b.files[file])) //nolint:gosec // convert has escaped what it does not allow
	if len(b.files[file]) > largePage {
		// Rendering needed many times the size of the page. Without this call the process would keep that
		// memory for minutes.
		debug.FreeOSMemory()
	}
	made = p.compose(b, v)
	b.keep(file, made)
	return made, nil
}

// notice returns a page with a message. It has no navigation: that may have a MiB, and notices are not cached.
func (p *pageRenderer) notice(b *book, root, title, text string) page {
	body := "<h1>" + template.HTMLEscapeString(title) + "</h1>\n<p>" + template.HTMLEscapeString(text) + "</p>\n"
	return p.compose(b, pageData{Root: root, Title: title, Body: template.HTML(body)}) //nolint:gosec // it is escaped
}

// compose returns a page with what all pages of the book have. The ETag is a hash of the whole page, so it changes
// with the text, the navigation and the viewer.
func (p *pageRenderer) compose(b *book, v pageData) page {
	v.Language, v.Direction = p.language, direction(p.language)
	v.Book = cmp.Or(p.title, b.summary.Title, "Contents")
	v.Style, v.Icon = v.Root+styleName, v.Root+iconName
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, v); err != nil {
		panic(err) // a mistake in the template: a buffer accepts all
	}
	return page{html: out.Bytes(), etag: `"` + digest(out.Bytes())[:32] + `"`}
}
