// SPDX-License-Identifier: Apache-2.0

// Package browser finds and starts a real browser, without a window, for tests that
// look at pages.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// Find returns the path of a browser: the program that $CHROMIUM names, or else
// chromium, chromium-browser or google-chrome from PATH.
func Find() (string, error) {
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
	return "", fmt.Errorf("finding a browser; install chromium or set CHROMIUM: %w", none)
}

// Start starts the browser at path with one tab, 1280 by 900, and returns the tab's context for
// chromedp. The browser runs until stop is called, even after the end of ctx.
func Start(ctx context.Context, path string) (tab context.Context, stop func() error, err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.WindowSize(1280, 900))
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(ctx), options...)
	tab, _ = chromedp.NewContext(allocator)
	stop = func() error {
		defer end()
		return chromedp.Cancel(tab)
	}
	if err := chromedp.Do(tab); err != nil { // starts it, to live as long as its context
		end()
		return nil, nil, fmt.Errorf("starting the browser %s: %w", path, err)
	}
	return tab, stop, nil
}
