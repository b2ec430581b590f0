// SPDX-License-Identifier: Apache-2.0

package election

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// Without the rights to watch, the standby polls, and there is no evidence.
func TestTakeover_without_rights(t *testing.T) {
	for resource, tc := range map[string]struct {
		lose        func(*duel)
		least, most time.Duration
		reason      string
	}{
		"pods": {func(d *duel) {
			d.leader.vanish(d.api)
			d.put(terminated("first", clock.RealClock{}.Now()))
		}, leaseTime - 2*retryPeriod, leaseTime, "expired"},
		"leases": {func(d *duel) { d.leader.stop() }, 0, retryPeriod, "released"},
	} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newLeader(t)
				a := d.api
				a.fail(func(verb, of string) error {
					if of == resource && (verb == "LIST" || verb == "WATCH") {
						return statusError(http.StatusForbidden)
					}
					return nil
				})
				d.standby = join(t, a, "second")
				a.take()
				pass(10 * retryPeriod)
				if n := count(a.take(), "LIST "+resource+" second"); n > 1 {
					t.Errorf("a list that is forbidden was sent %d times", n)
				}
				tc.lose(d)
				d.expect(t, d.takesOver(t, 2*leaseTime), tc.least, tc.most, tc.reason)
			})
		})
	}
}

// While lists fail, a standby reads the Lease in each retry period.
func TestTakeover_while_lists_fail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newLeader(t)
		d.fail(func(verb, of string) error {
			if of == "leases" && verb == "LIST" {
				return statusError(http.StatusInternalServerError)
			}
			return nil
		})
		d.standby = join(t, d.api, "second")
		pass(10 * retryPeriod)
		d.take()
		pass(10 * retryPeriod)
		requests := d.take()
		if n := count(requests, "GET leases second"); n < 9 || n > 11 {
			t.Errorf("%d reads in 10 retry periods, want one in each: %q", n, requests)
		}
		d.leader.stop()
		d.expect(t, d.takesOver(t, leaseTime), 0, retryPeriod+20*time.Millisecond, "released")
	})
}
