// SPDX-License-Identifier: Apache-2.0

package sample

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/fault"
)

func TestSlowStaleness(t *testing.T) {
	for _, name := range []string{"own write not seen", "answer lost", "write refused", "old list"} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld(t)
			_, api := fault.Before(t, cfg) // cfg is that of envtest, which the test's own client keeps
			api.Start(Run)                 // func(ctx, cfg) error: makes your manager and starts it
			var injected *fault.Injection
			switch name {
			case "own write not seen":
				injected = api.HoldEvents("secrets")
				w.converge()
			case "answer lost":
				api.LoseAnswer("create", "secrets")
				injected = api.HoldEvents("secrets")
				w.converge()
			case "write refused":
				w.converge()
				injected = api.Refuse("update", "secrets", 409)
			case "old list":
				old := api.Remember("secrets")
				w.converge()
				injected = api.RestartSeeing(old)
			}
			w.apply("2")
			g.Consistently(w.children, stays).Should(HaveLen(1))
			injected.Heal()
			g.Eventually(w.children, soon).Should(ConsistOf("2"))
		})
	}
}
