// SPDX-License-Identifier: Apache-2.0

package viewer_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/expect"
)

// tab is a tab of the browser that records its requests and errors.
type tab struct {
	ctx context.Context

	mu         sync.Mutex
	requests   []string
	complaints []string
}

// newTab opens a tab and closes it at the end of the spec.
func newTab(browser context.Context) *tab {
	GinkgoHelper()
	ctx, end := chromedp.NewContext(browser)
	DeferCleanup(end)
	t := &tab{ctx: ctx}
	Expect(chromedp.Do(ctx)).To(Succeed())
	Expect(chromedp.Listen(ctx, t.remember)).To(Succeed())
	return t
}

func (t *tab) remember(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		t.requests = append(t.requests, e.Request.URL)
	case *network.EventResponseReceived:
		if e.Response.Status >= http.StatusBadRequest {
			t.complaints = append(t.complaints, fmt.Sprintf("status %d: %s", e.Response.Status, e.Response.URL))
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			t.complaints = append(t.complaints, fmt.Sprintf("not loaded: %s %s", e.ErrorText, e.BlockedReason))
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			t.complaints = append(t.complaints, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	case *cdpruntime.EventExceptionThrown:
		t.complaints = append(t.complaints, "exception: "+e.ExceptionDetails.Text)
	case *cdpruntime.EventConsoleAPICalled:
		t.complaints = append(t.complaints, fmt.Sprintf("console.%s", e.Type))
	}
}

// elsewhere returns the requests to other hosts than base.
func (t *tab) elsewhere(base string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []string
	for _, url := range t.requests {
		if !strings.HasPrefix(url, base+"/") && !strings.HasPrefix(url, "data:") {
			found = append(found, url)
		}
	}
	return found
}

func (t *tab) complained() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.complaints...)
}

// do runs steps in the tab with a timeout.
func (t *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(t.ctx, expect.Medium)
	defer cancel()
	Expect(chromedp.Do(ctx, steps...)).To(Succeed())
}

// evaluate evaluates an expression in the page.
func evaluate[T any](t *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, expect.Medium)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// value is evaluate, and fails the spec on an error.
func value[T any](t *tab, expression string) T {
	GinkgoHelper()
	result, err := evaluate[T](t, expression)
	Expect(err).NotTo(HaveOccurred())
	return result
}

// click clicks the element that a CSS selector finds, once it is visible.
func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

// tap is click on a touch screen.
func tap(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Tap(chromedp.CSS(selector))
}

// scheme emulates a preference for the light or dark colour scheme.
func scheme(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	})
}

// phone emulates a phone of this width.
func phone(width int64) chromedp.Action[chromedp.Void] {
	return chromedp.EmulateViewport(width, 844, chromedp.EmulatePortrait, chromedp.EmulateMobile, chromedp.EmulateTouch,
		chromedp.EmulateScale(2))
}

func (t *tab) screenshot(name string) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(t.ctx, expect.Medium)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	Expect(err).NotTo(HaveOccurred())
	keep(name, png)
}
