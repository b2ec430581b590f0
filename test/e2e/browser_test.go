package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/gomega"
)

// findBrowser returns the path of a browser: $CHROMIUM, or one from PATH.
func findBrowser() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	if own := os.Getenv("CHROMIUM"); own != "" {
		names = []string{own}
	}
	var none error
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			return path, nil
		}
		none = errors.Join(none, err)
	}
	return "", none
}

// tab is a tab of a browser of its own.
type tab struct {
	ctx context.Context
	g   *WithT
}

// openTab starts a browser, which ends with the test. Without one the test is
// skipped, unless CI is set: there that is a failure.
func openTab(ctx context.Context, t *testing.T, g *WithT) *tab {
	t.Helper()
	path, err := findBrowser()
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("needs a browser; install chromium or set CHROMIUM: %v", err)
	}
	g.Expect(err).NotTo(HaveOccurred(), "CI is set, and there a missing browser is a failure")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("hide-scrollbars", true), chromedp.WindowSize(1280, 900))
	allocator, end := chromedp.NewExecAllocator(ctx, options...)
	browser, _ := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		defer end()
		g.Expect(chromedp.Cancel(browser)).To(Succeed())
	})
	g.Expect(chromedp.Do(browser)).To(Succeed()) // starts it, to live as long as its context
	return &tab{ctx: browser, g: g}
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
