// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/report"
	"leasehold.dev/test/internal/browser"
)

// The timeline of a real run with hundreds of writes by two replicas is a usable page: it fits, its
// search works, and it loads no other file.
func TestSlowTimelineInABrowser(t *testing.T) {
	g := NewWithT(t)
	path, err := browser.Find()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	g.Expect(err).NotTo(HaveOccurred(), "CI is set, and there a missing browser is a failure")
	r, err := report.Load(filepath.Join("testdata", "runs", "two-writers"))
	g.Expect(err).NotTo(HaveOccurred())
	page, err := r.Save(t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())

	tab, stop, err := browser.Start(t.Context(), path)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(stop()).To(Succeed()) }()
	// The first call has started the browser, so this timeout bounds only the page's load.
	tab, cancel := context.WithTimeout(tab, time.Minute)
	defer cancel()
	do := func(steps ...chromedp.Action[chromedp.Void]) { g.Expect(chromedp.Do(tab, steps...)).To(Succeed()) }
	number := func(expression string) float64 {
		n, err := chromedp.Run(tab, chromedp.Evaluate[float64](expression))
		g.Expect(err).NotTo(HaveOccurred(), expression)
		return n
	}
	text := func(expression string) string {
		s, err := chromedp.Run(tab, chromedp.Evaluate[string](expression))
		g.Expect(err).NotTo(HaveOccurred(), expression)
		return s
	}
	do(chromedp.EmulateViewport(1400, 900), chromedp.Navigate("file://"+page))

	g.Expect(number(`performance.getEntriesByType("resource").length`)).To(BeZero(), "other files that it has loaded")
	g.Expect(number(`document.documentElement.scrollWidth`)).To(BeNumerically("<=", 1400), "no scrolling sideways")
	g.Expect(number(`document.querySelectorAll("tr.write").length`)).To(BeNumerically(">", 200))
	g.Expect(number(`document.querySelectorAll("svg .tick.broken").length`)).To(BeNumerically(">=", 16))
	g.Expect(number(`document.querySelector("svg").getBoundingClientRect().top`)).To(BeNumerically("<", 900),
		"the picture begins on the first screen")

	const asides = `[...document.querySelectorAll("tr.aside")].filter(e => e.checkVisibility()).length`
	g.Expect(number(asides)).To(BeZero())
	do(chromedp.Click(chromedp.CSS("#all")))
	g.Expect(number(asides)).To(BeNumerically(">", 100))
	do(chromedp.Click(chromedp.CSS("#all")))

	do(chromedp.Click(chromedp.CSS("svg circle.flag")))
	g.Eventually(func() string { return text(`document.querySelector("tr:target")?.nextElementSibling.innerText ?? ""`) }).
		WithTimeout(time.Minute).Should(
		ContainSubstring("every write of the operator that was stored with a version was made by the replica that held the Lease"))
	g.Eventually(func() float64 { return number(`document.querySelector("tr:target").getBoundingClientRect().top`) }).
		WithTimeout(time.Minute).Should(And(BeNumerically(">=", -1), BeNumerically("<", 900)), "it is on the screen")

	do(chromedp.EmulateViewport(1400, 2000), chromedp.Navigate("file://"+page))
	png, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
	g.Expect(err).NotTo(HaveOccurred())
	keepPicture(t, "prove-timeline.png", png)
}

// keepPicture writes a screenshot into the folder of reports.
func keepPicture(t *testing.T, name string, png []byte) {
	t.Helper()
	g := NewWithT(t)
	dir := os.Getenv("ARTIFACTS")
	if dir == "" {
		dir = filepath.Join("..", "..", "artifacts")
	}
	g.Expect(os.MkdirAll(dir, 0o750)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, name), png, 0o600)).To(Succeed())
}
