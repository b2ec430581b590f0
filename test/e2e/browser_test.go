package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/browser"
)

// tab is a tab of a browser of its own.
type tab struct {
	ctx context.Context
	g   *WithT
}

// openTab starts a browser, which ends with the test. Without one the test is
// skipped, unless CI is set: there that is a failure.
func openTab(ctx context.Context, t *testing.T, g *WithT) *tab {
	t.Helper()
	path, err := browser.Find()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err.Error())
	}
	g.Expect(err).NotTo(HaveOccurred(), "CI is set, and there a missing browser is a failure")
	of, stop, err := browser.Start(ctx, path)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(stop()).To(Succeed()) })
	return &tab{ctx: of, g: g}
}

// do runs steps, for a while at most.
func (t *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	ctx, cancel := context.WithTimeout(t.ctx, readyTimeout)
	defer cancel()
	t.g.Expect(chromedp.Do(ctx, steps...)).To(Succeed())
}

// text is that of the first element that a CSS selector finds.
func (t *tab) text(selector string) string {
	ctx, cancel := context.WithTimeout(t.ctx, readyTimeout)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector(`+"`"+selector+"`"+`).textContent`))
	t.g.Expect(err).NotTo(HaveOccurred())
	return text
}

// screenshot keeps what the tab shows in the folder of artefacts.
func (t *tab) screenshot(name string) {
	ctx, cancel := context.WithTimeout(t.ctx, readyTimeout)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	t.g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(shared.settings.Artifacts, name)
	t.g.Expect(os.WriteFile(path, png, 0o644)).To(Succeed())
	shared.say("screenshot: %s", path)
}
