// SPDX-License-Identifier: Apache-2.0

// Package counts_test counts the requests for each change at the API server: the writes, live reads,
// watches and events of the shipped operator, and its reconciles. The numbers are in counts.golden.yaml.
package counts_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/integration/internal/operator"
)

const goldenFile = "counts.golden.yaml"

// update rewrites the golden file: go test ./test/integration/counts -update.
var update = flag.Bool("update", false, "rewrite "+goldenFile)

var (
	suite = operator.NewSuite(operator.Options{
		Name: "counts",
		// The audit log has the bodies of all writes: a write without a change counts separately.
		AuditGroups: []string{"", "apps"},
		Args: []string{
			"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=500ms",
			"--endpoint-allow-cidr=127.0.0.1/32",
		},
		// The number of steps of the namespace controller depends on the machine, so the spec
		// removes namespaces itself.
		Controllers: slices.DeleteFunc(slices.Clone(env.DefaultControllers), func(name string) bool {
			return name == "namespace-controller"
		}),
		Answers: func() client.Object { return newTenant("answers", "", suffixes{"dev"}) },
	})
	k8s client.Client
)

func TestCounts(t *testing.T) { suite.Run(t) }

var _ = SynchronizedBeforeSuite(suite.Start, func(ctx SpecContext, data []byte) { k8s = suite.Join(ctx, data) })

var _ = SynchronizedAfterSuite(func() {}, suite.End)

// One spec, because each phase continues from the objects of the one before it.
var _ = Describe("The operator", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	BeforeEach(suite.NeedsControllers)

	It("sends the API server the requests that counts.golden.yaml lists", func(ctx SpecContext) {
		c := &counter{clock: clock.RealClock{}}
		c.rest(ctx)
		c.countTenants(ctx)
		c.countBuckets(ctx)
		c.countViews(ctx)
		c.countFleet(ctx)
		found := c.tally()

		text, err := os.ReadFile(goldenFile)
		Expect(err).NotTo(HaveOccurred())
		want, err := readGolden(text)
		Expect(err).NotTo(HaveOccurred())
		if *update {
			// The file is part of the sources.
			Expect(os.WriteFile(goldenFile, writeGolden(want, found), 0o600)).To(Succeed())
			return
		}
		differences := compare(want, found)
		for _, phase := range found {
			GinkgoWriter.Println(phase)
			if slices.ContainsFunc(differences, func(d difference) bool { return d.phase == phase.Name }) {
				GinkgoWriter.Print(c.requests(phase.Name))
			}
		}
		var texts []string
		for _, d := range differences {
			texts = append(texts, d.String())
		}
		Expect(strings.Join(texts, "\n")).To(BeEmpty(), "if the change is meant: go test ./test/integration/counts -update")
	})
})
