package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"runtime/debug"
	"sync"

	"leasehold.dev/controllers/markdownview/summary"
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

	// The names have the contents in them, so that a browser may keep them for ever.
	styleName = hashedName("style", styleSource, "css")
	iconName  = hashedName("icon", iconSource, "svg")
)

// reservedIDs are the ids that page.html uses.
var reservedIDs = []string{"content"}

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

// view is what page.html shows.
type view struct {
	Language, Book, Title string
	Root                  string // leads from the page's address to the front page's
	Style, Icon           string
	Navigation            []item
	Previous, Next        *item
	Body                  template.HTML
}

// item is a line of the navigation.
type item struct {
	Title   string
	Href    string // "" for a chapter yet to be written, a part title or a separator
	Kind    string // "chapter", "part" or "separator"
	Indent  int
	Current bool
}

// maxIndent keeps deep chapters readable on a phone.
const maxIndent = 4

// navigation returns the lines of the navigation as seen from the page of file,
// which root leads away from.
// Only the first link to a file is the current one.
func (b *book) navigation(root, file string) []item {
	var items []item
	marked := false
	for _, entry := range b.summary.Entries {
		i := item{Title: entry.Title, Kind: "chapter", Indent: min(entry.Depth, maxIndent)}
		switch entry.Kind {
		case summary.Part:
			i.Kind = "part"
		case summary.Separator:
			i.Kind = "separator"
		}
		if _, ok := b.files[entry.File]; ok {
			i.Href = root + render.PageName(entry.File)
			i.Current = entry.File == file && !marked
			marked = marked || i.Current
		}
		items = append(items, i)
	}
	return items
}

// printer makes pages of books.
type printer struct {
	title    string // of the book; "" for what SUMMARY.md says
	language string

	// cache holds the pages of one version of the book, up to maxCacheBytes. Pages
	// are made one at a time: what making one takes is the most that is ever taken.
	mu      sync.Mutex
	version string
	cache   map[string]page
	cached  int
}

const (
	maxCacheBytes = 4 << 20
	largePage     = 64 << 10
)

// page is a page as it is sent.
type page struct {
	html []byte
	etag string
}

// page returns the page of a file of the book.
func (p *printer) page(b *book, file string) (page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version != b.version {
		p.version, p.cache, p.cached = b.version, map[string]page{}, 0
	}
	if made, ok := p.cache[file]; ok {
		return made, nil
	}
	body, err := render.HTML(b.files[file], reservedIDs...)
	if err != nil {
		return page{}, fmt.Errorf("making the page of %s: %w", file, err)
	}
	made, err := p.compose(b, "", file, b.title(file), body)
	if err != nil {
		return page{}, err
	}
	if len(b.files[file]) > largePage {
		// Making it took many times its size, which would stay with us for minutes.
		debug.FreeOSMemory()
	}
	if p.cached+len(made.html) <= maxCacheBytes {
		p.cache[file] = made
		p.cached += len(made.html)
	}
	return made, nil
}

// notice returns a page that says something about the book; b may be nil.
func (p *printer) notice(b *book, root, title, text string) (page, error) {
	body := "<h1>" + template.HTMLEscapeString(title) + "</h1>\n<p>" + template.HTMLEscapeString(text) + "</p>\n"
	return p.compose(b, root, "", title, []byte(body))
}

// compose puts a body into the page around it. The tag is that of the page as it
// is sent, so it changes with the text, the navigation and the viewer. file is ""
// for what is not of the book.
func (p *printer) compose(b *book, root, file, title string, body []byte) (page, error) {
	v := view{
		Language: p.language, Book: p.title, Title: title,
		Root: root, Style: root + styleName, Icon: root + iconName,
		Body: template.HTML(body), //nolint:gosec // render has escaped what it does not allow
	}
	if b != nil {
		if v.Book == "" {
			v.Book = b.summary.Title
		}
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

func (b *book) link(file string) *item {
	if file == "" {
		return nil
	}
	return &item{Title: b.title(file), Href: render.PageName(file)}
}
