// SPDX-License-Identifier: Apache-2.0

// Package viewer_test tests the real page server with a real browser: what a reader can see, and
// what a hostile page cannot do.
//
// Without a browser the specs are skipped with a message. Where $CI is set they fail.
package viewer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
	"leasehold.dev/test/internal/browser"
)

func TestViewer(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(expect.Short)
	SetDefaultEventuallyPollingInterval(expect.Poll)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Viewer")
}

// startBrowser starts a browser that runs until the end of the container, and returns a function
// that opens a tab.
func startBrowser(ctx SpecContext) (openTab func() *tab) {
	GinkgoHelper()
	path, err := browser.Find()
	if err != nil && os.Getenv("CI") == "" {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred(), "CI is set, and there a missing browser is a failure")
	first, stop, err := browser.Start(ctx, path)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(stop()).To(Succeed()) })
	return func() *tab {
		GinkgoHelper()
		return newTab(first)
	}
}

// viewer is the binary under test, built once by each process that needs it.
var viewer string

func buildViewer() {
	GinkgoHelper()
	viewer = operator.Viewer()
}

// serve starts a viewer on a folder and returns its address. It is killed at the end of the spec,
// because it would wait for the browser's preconnected sockets.
func serve(ctx SpecContext, dir string) string {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command(viewer, "--dir="+dir, "--bind-address=127.0.0.1:0"), GinkgoWriter,
		GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Eventually(ctx, session.Kill()).Should(gexec.Exit())
	})
	Eventually(ctx, session).Should(gbytes.Say(`msg=Serving address=127\.0\.0\.1:\d+ `))
	return "http://" + serving.FindStringSubmatch(string(session.Out.Contents()))[1]
}

// keep writes a screenshot to the folder of reports and adds its path to the report.
func keep(name string, png []byte) {
	GinkgoHelper()
	dir := os.Getenv("ARTIFACTS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "artifacts")
	}
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	path, err := filepath.Abs(filepath.Join(dir, name))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(path, png, 0o600)).To(Succeed())
	AddReportEntry("screenshot", path, ReportEntryVisibilityAlways)
}
