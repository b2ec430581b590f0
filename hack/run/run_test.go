// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/leasehold"
)

// TestChange_PrintsEachChangeOnce tests the output for a series of objects. TestSlowTour tests the rest.
func TestChange_PrintsEachChangeOnce(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	for _, holder := range []string{"a_1", "a_1", "", "b_2"} { // the first is renewed
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		lease.Namespace, lease.Name = leasehold.Namespace, leasehold.Lease
		p.change(lease, false)
		lease.Namespace, lease.Spec.HolderIdentity = "elsewhere", new("x_1")
		p.change(lease, false)
	}
	tenant := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	tenant.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Reconciled", Message: "fine"}}
	p.change(tenant, false)
	p.change(tenant, false)
	tenant.DeletionTimestamp = new(metav1.Now())
	p.change(tenant, false)
	p.change(toolscache.DeletedFinalStateUnknown{Obj: tenant}, true)

	event := &eventsv1.Event{Type: "Normal", Reason: "Updated", Note: "the Tenant was updated"}
	event.Regarding.Name = "t"
	p.change(event, false) // about another object
	event.Regarding.APIVersion = v1beta1.GroupVersion.String()
	p.change(event, false)
	event.Series = &eventsv1.EventSeries{Count: 2}
	p.change(event, false)
	p.change(event, true)

	got := regexp.MustCompile(`(?m)^ *[0-9.]+ s  (\S+) +`).ReplaceAllString(out.String(), "$1: ")
	want := `leader: a is the leader
leader: no leader: the Lease is released
leader: b is the leader
tenant: t: Ready=True (Reconciled) fine
tenant: t is being deleted
tenant: t is gone
event: t: Normal Updated: the Tenant was updated
event: t: Normal Updated: the Tenant was updated (2 times)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// crashing ends after the duration of its latest start, or at once without one.
type crashing struct {
	starts int
	runs   map[int]time.Duration
}

func (c *crashing) Pid() int { return c.starts }

func (c *crashing) Done() <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(c.runs[c.starts], func() { close(done) })
	return done
}

// The pauses grow to the longest, and are reset after a process has run for long.
func TestKeep_RestartsWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := &crashing{runs: map[int]time.Duration{2: time.Second, 4: 11 * time.Minute}}
		newProgress(&out).keep(t.Context(), "operator", "a", c, 0, 5*time.Minute, func() error {
			if c.starts++; c.starts == 12 {
				return errors.New("no program")
			}
			return nil
		})
		ends := regexp.MustCompile(` *(\S+) s .* in (\S+)\n.*\n`).ReplaceAllString(out.String(), "$1+$2 ")
		want := "0.0+0s 0.0+10s 11.0+20s 31.0+40s 731.0+0s 731.0+10s 741.0+20s 761.0+40s 801.0+1m20s 881.0+2m40s " +
			"1041.0+5m0s 1341.0+5m0s "
		if diff := cmp.Diff(want, ends); diff != "" {
			t.Errorf("times of ends, and pauses after them (-want +got):\n%s\n%s", diff, &out)
		}
	})
}
