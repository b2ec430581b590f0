// SPDX-License-Identifier: Apache-2.0

package viewer_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var serving = regexp.MustCompile(`msg=Serving address=(\S+)`)

// Expressions for the content of the page, for Eventually.
const (
	heading = `document.querySelector("main h1").textContent`
	current = `document.querySelector('nav.side [aria-current="page"]').textContent`
)

// Ordered, to start the browser once. Each spec has its own viewer and tab.
var _ = Describe("The viewer in a browser", Ordered, func() {
	var openTab func() *tab

	BeforeAll(func(ctx SpecContext) {
		openTab = startBrowser(ctx)
		buildViewer()
	})

	// open shows a book in a tab. At the end it checks that the tab sent no request to another host
	// and that the browser reported no error.
	open := func(ctx SpecContext, m *mount) (*tab, string) {
		GinkgoHelper()
		base := serve(ctx, m.dir)
		t := openTab()
		DeferCleanup(func() {
			Expect(t.elsewhere("")).NotTo(BeEmpty(), "requests at all")
			Expect(t.elsewhere(base)).To(BeEmpty(), "requests to other hosts")
			Expect(t.complained()).To(BeEmpty(), "what the browser complained of")
		})
		t.do(scheme("light"), chromedp.EmulateViewport(1280, 900), chromedp.Navigate(base+"/"))
		return t, base
	}

	It("shows the first chapter, with the navigation, on a desktop", func(ctx SpecContext) {
		t, _ := open(ctx, mountHandbook(nil))
		Expect(value[string](t, heading)).To(Equal("Welcome"))
		Expect(value[string](t, current)).To(Equal("Welcome"))
		Expect(value[string](t, `document.title`)).To(Equal("Welcome · Orchard handbook"))
		Expect(value[[]string](t, `[...document.querySelectorAll("nav.side li")].map(e => e.innerText)`)).To(
			Equal([]string{"Welcome", "Run a release", "Roll back", "Review the year", "When it breaks", "On call"}))
		Expect(value[[]string](t, `[...document.querySelectorAll("main table, main pre, main input[type=checkbox], main blockquote")].map(e => e.localName)`)).To(
			Equal([]string{"table", "input", "input", "input", "pre", "blockquote"}))
		Expect(value[bool](t, `document.querySelector(".menu").checkVisibility()`)).To(BeFalse(),
			"the menu is for narrow windows")
		t.screenshot("viewer-light.png")
	})

	It("leads from page to page by clicks: navigation, text, next, previous, title", func(ctx SpecContext) {
		t, base := open(ctx, mountHandbook(nil))
		for _, step := range []struct{ selector, page, address string }{
			{`nav.side a[href="release.html"]`, "Run a release", "/release.html"},
			{`main a[href="rollback.html#how"]`, "Roll back", "/rollback.html#how"},
			{`.turn a[rel="next"]`, "On call", "/oncall.html"},
			{`.turn a[rel="prev"]`, "Roll back", "/rollback.html"},
			{`a.book`, "Welcome", "/"},
		} {
			t.do(click(step.selector))
			Eventually(ctx, func() (string, error) { return evaluate[string](t, `location.href`) }).Should(Equal(base + step.address))
			Eventually(ctx, func() (string, error) { return evaluate[string](t, heading) }).Should(Equal(step.page))
			Expect(value[string](t, current)).To(Equal(step.page))
		}
	})

	It("shows text that changed, and pages that were added, after a reload", func(ctx SpecContext) {
		m := mountHandbook(nil)
		t, _ := open(ctx, m)
		Expect(value[string](t, heading)).To(Equal("Welcome"))
		m.update(map[string]string{
			"SUMMARY.md": "# Orchard handbook\n\n- [Start](welcome.md)\n- [Fresh](fresh.md)\n",
			"welcome.md": "# Changed\n", "fresh.md": "# A fresh page\n",
		})
		t.do(chromedp.Reload())
		Expect(value[string](t, heading)).To(Equal("Changed"))
		t.do(click(`nav.side a[href="fresh.html"]`))
		Eventually(ctx, func() (string, error) { return evaluate[string](t, heading) }).Should(Equal("A fresh page"))
	})

	It("runs no code in the Markdown", func(ctx SpecContext) {
		t, _ := open(ctx, mountHandbook(map[string]string{"welcome.md": hostile}))
		// The text after the attacks is on the page, so they were in it.
		Expect(value[string](t, `document.querySelector("main p:last-of-type").textContent`)).To(Equal("The end."))
		t.do(click(`#click-me`))
		t.do(chromedp.Reload())
		Expect(value[string](t, `typeof window.ran`)).To(Equal("undefined"))
		Expect(value[string](t, `document.title`)).To(Equal("Welcome · Orchard handbook"))
		Expect(value[int](t, `document.querySelectorAll("script, svg, iframe, style, main form, main [onerror], main [onclick], [href^='javascript:' i]").length`)).To(BeZero())
	})

	It("stays within the width of a phone, with the navigation hidden", func(ctx SpecContext) {
		t, base := open(ctx, mountHandbook(nil))
		for _, width := range []int64{320, 390} {
			t.do(phone(width))
			for _, page := range []string{"/", "/release.html", "/rollback.html", "/oncall.html"} {
				t.do(chromedp.Navigate(base + page))
				Expect(value[int64](t, `innerWidth`)).To(Equal(width), page)
				Expect(value[int64](t, `document.documentElement.scrollWidth`)).To(BeNumerically("<=", width), page)
			}
		}
		t.do(chromedp.Navigate(base + "/"))
		t.screenshot("viewer-phone.png")
		Expect(value[bool](t, `document.querySelector("nav.side").checkVisibility()`)).To(BeFalse())
		const menu = `document.querySelector(".menu nav").checkVisibility()`
		Expect(value[bool](t, menu)).To(BeFalse())
		t.do(tap(".menu summary"))
		Expect(value[bool](t, menu)).To(BeTrue())
		t.screenshot("viewer-phone-menu.png")
		t.do(tap(`.menu a[href="oncall.html"]`))
		Eventually(ctx, func() (string, error) { return evaluate[string](t, heading) }).Should(Equal("On call"))
		Expect(value[bool](t, menu)).To(BeFalse())
	})

	It("is dark for readers with that preference, and readable in both schemes", func(ctx SpecContext) {
		t, base := open(ctx, mountHandbook(nil))
		for _, look := range []struct {
			name  string
			paper OmegaMatcher
		}{{"light", BeNumerically(">", 0.9)}, {"dark", BeNumerically("<", 0.05)}} {
			t.do(scheme(look.name))
			for _, page := range []string{"/", "/rollback.html"} {
				t.do(chromedp.Navigate(base + page))
				Expect(value[float64](t, contrast+`luminance(paper(document.body))`)).To(look.paper, look.name)
				Expect(value[[]string](t, contrast+`faint()`)).To(BeEmpty(), "texts with a contrast of less than 4.5 in "+look.name)
			}
			t.do(chromedp.Navigate(base + "/"))
		}
		t.screenshot("viewer-dark.png")
	})

	It("is used by keyboard: the first stop skips to the text", func(ctx SpecContext) {
		t, base := open(ctx, mountHandbook(nil))
		t.do(chromedp.KeyEvent("\t"))
		Expect(value[string](t, `document.activeElement.className`)).To(Equal("skip"))
		t.do(chromedp.KeyEvent("\r"))
		Eventually(ctx, func() (string, error) { return evaluate[string](t, `location.href`) }).Should(Equal(base + "/#page."))
		Expect(value[string](t, `document.activeElement.localName`)).To(Equal("main"))
	})

	// The control for the specs above: this browser runs scripts, and its requests and errors are recorded.
	It("is tested by a browser that runs scripts", func(ctx SpecContext) {
		other := httptest.NewServer(http.NotFoundHandler())
		DeferCleanup(other.Close)
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			const head = `<title>t</title><link rel="icon" href="data:,">`
			switch r.URL.Path {
			case "/":
				fmt.Fprintf(w, head+`<img src="%s/x.png" onerror="window.ran = 'onerror'"><script>document.title = "ran"; console.error("seen"); unknown()</script>`, other.URL)
			case "/strict":
				w.Header().Set("Content-Security-Policy", "default-src 'self' data:")
				fmt.Fprint(w, head+`<p style="color: red"><script>document.title = "ran"</script><img src="none.png">`)
			default:
				http.NotFound(w, r)
			}
		}))
		DeferCleanup(page.Close)
		t := openTab()
		t.do(chromedp.Navigate(page.URL + "/"))
		Expect(value[string](t, `document.title`)).To(Equal("ran"))
		Eventually(ctx, func() (string, error) { return evaluate[string](t, `String(window.ran)`) }).Should(Equal("onerror"))
		Eventually(ctx, func() []string { return t.elsewhere(page.URL) }).Should(ConsistOf(other.URL + "/x.png"))
		t.do(chromedp.Navigate(page.URL + "/strict"))
		Expect(value[string](t, `document.title`)).To(Equal("t"))
		Eventually(ctx, t.complained).Should(ContainElements(
			Equal("console.error"), HavePrefix("exception: "), HavePrefix("not loaded: "), HavePrefix("status 404: "+page.URL),
			ContainSubstring("inline style violates"), ContainSubstring("inline script violates")))
	})
})

// hostile is a page that would run scripts and load other hosts in many ways, if the viewer did not
// escape it.
const hostile = `# Welcome

<script>window.ran = "script"; document.title = "ran"</script>

Inline <script>window.ran = "inline"; document.title = "ran"</script> and <img src="x" onerror="window.ran = 'onerror'">.

<img src="http://127.0.0.1:9/x.png" onerror="window.ran = 'onerror'">

<svg onload="window.ran = 'svg'"><script>window.ran = "svg script"</script></svg>

<iframe srcdoc="<script>parent.ran = 'iframe'</script>"></iframe>

<style>body { background: url(http://127.0.0.1:9/y.png) }</style>

<meta http-equiv="refresh" content="0;url=http://127.0.0.1:9/z">

[a](javascript:window.ran='link') [b](<java&Tab;script:window.ran='tab'>) [c](javascript&colon;window.ran='entity')

![d](http://127.0.0.1:9/image.png) ![e" onerror="window.ran='alt'](x.png)

## Click me

The end.
`

// contrast is a script that computes the contrast of each text by the formula of WCAG 2.
const contrast = `
function rgb(color) { return color.match(/[\d.]+/g).map(Number) }
function luminance(color) {
	const [r, g, b] = rgb(color).slice(0, 3).map(v => v / 255)
		.map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
	return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
function paper(element) {
	for (let e = element; e; e = e.parentElement) {
		const color = getComputedStyle(e).backgroundColor
		if (rgb(color).length === 3) return color
	}
	return "rgb(255, 255, 255)"
}
function faint() {
	const found = []
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement
		if (!texts.currentNode.data.trim() || !e.checkVisibility()) continue
		const [a, b] = [luminance(getComputedStyle(e).color), luminance(paper(e))]
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
		if (ratio < 4.5) found.push(ratio.toFixed(2) + " " + texts.currentNode.data.trim())
	}
	return found
}
`
