// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/history"
)

// SingleWriter compares the version of each write with the Lease's.
var SingleWriter = Invariant{
	Name:      "single-writer",
	Bug:       "https://github.com/telekom/k8s-breakglass/issues/464",
	inHostile: true,
	Promise: "every write came from the replica that held the Lease at the version that the write stored; no " +
		"replica takes the Lease too early, or writes a Lease that has expired by its own times",
	needs: []history.Source{history.Audit},
	judge: judgeSingleWriter,
}

func judgeSingleWriter(b *judgement) {
	terms := b.History.Terms(b.Contract.Lease)
	if len(terms) == 0 {
		b.addDoubt("no version of the Lease %s/%s was recorded", b.Contract.Lease.Namespace, b.Contract.Lease.Name)
		return
	}
	b.judgeTaken()
	b.judgeTimes()
	for _, r := range b.History.Requests {
		// A fence rejects writes, and writes without effect are harmless.
		if !b.ours(r) || b.electing(r) || !r.Done() && r.Effect != history.Unknown {
			continue
		}
		b.checked++
		leaders := history.HeldDuring(terms, r.RevisionRange)
		_, exact := r.Exact()
		switch {
		case r.Replica == "":
			b.addDoubt("%s: its token names no replica", r)
		case len(leaders) == 0:
			b.addDoubt("%s: the holder of the Lease at that time was not recorded", r)
		case slices.Equal(leaders, []string{r.Replica}):
		case b.neverStored(r):
		case r.Effect == history.Unknown:
			b.addDoubt("%s: it may have been stored while %s held the Lease", r, names(leaders))
		case slices.Contains(leaders, r.Replica):
			b.addDoubt("%s: the holder of the Lease changed about that time, between %s", r, names(leaders))
		case !exact && r.Effect == history.Stored:
			b.addDoubt("%s: its effect was not recorded, and %s held the Lease%s", r, names(leaders), b.recordingAdvice(r.Resource))
		case b.overtaken(r.Replica, r.Received):
		default:
			b.addViolation("%s: at that time %s held the Lease", r, names(leaders)).request(r)
		}
	}
}

// recordingAdvice names the line with which the objects of a resource are recorded; "" if they are.
func (b *judgement) recordingAdvice(r history.Resource) string {
	if slices.Contains(slices.Concat(b.Contract.Resources(), b.Contract.Watched), r) {
		return ""
	}
	return fmt.Sprintf("; to record it, add this line to watched in subject.yaml: - {group: %q, resource: %s}", r.Group, r.Resource)
}

// overtaken reports whether a fault made a request late. A fenced operator promises that this does not matter.
func (b *judgement) overtaken(replica string, at time.Time) bool {
	return !b.Contract.Fenced && b.lateBy(replica, at) != nil
}

// lateBy returns the fault that made a request late, or nil: its replica led when it sent it, or had no
// time to notice that it does not.
func (b *judgement) lateBy(replica string, at time.Time) *history.FaultRecord {
	for i, f := range b.History.Faults {
		if f.Replica == replica && !at.Before(f.Began) && !at.After(f.Overtaken) {
			return &b.History.Faults[i]
		}
	}
	return nil
}

// neverStored reports whether a write without a known effect had none: a watch has recorded
// every version of the object since, and each is known to be the effect of another request.
func (b *judgement) neverStored(r history.Request) bool {
	if r.Effect != history.Unknown || r.Name == "" || !b.History.Has(history.Watch) ||
		!slices.Contains(b.Contract.Resources(), r.Resource) {
		return false
	}
	writers := b.writers()
	return !slices.ContainsFunc(b.History.Versions, func(v history.Version) bool {
		_, others := writers[v.RevisionRange]
		return v.Key == r.Key && !v.Before(r.RevisionRange) && !others
	})
}

func names(leaders []string) string {
	quoted := make([]string, len(leaders))
	for i, name := range leaders {
		quoted[i] = fmt.Sprintf("replica %s", name)
		if name == "" {
			quoted[i] = "no replica"
		}
	}
	return strings.Join(quoted, " or ")
}

// sooner bounds the error of the times of two versions: each is the time of the response to its
// writer, or of its observation.
const sooner = time.Second

// judgeTaken judges each version of the Lease with another holder than the previous one.
func (b *judgement) judgeTaken() {
	var before *history.Version
	for i := range b.History.Versions {
		now := &b.History.Versions[i]
		if now.Key != b.Contract.Lease {
			continue
		}
		if before != nil && !before.Gone && !now.Gone && before.UID == now.UID && !before.At.IsZero() && !now.At.IsZero() {
			had, has, lasts := before.HolderIdentity(), now.HolderIdentity(), lasting(before)
			sent, known := renewedAt(before) // the sender can end before the response, and its Pod start another process
			if !known || sent.After(before.At) {
				sent = before.At
			}
			if had != "" && has != "" && had != has && now.At.Sub(before.At) < lasts-sooner &&
				!b.endedBetween(had, sent, now.At) {
				b.addViolation("the Lease passed from %s to %s at %s, %s after its renewal at %s: its duration is %s, and it was not released",
					had, has, now.RevisionRange, now.At.Sub(before.At).Round(time.Millisecond), before.RevisionRange, lasts).
					revision(now.RevisionRange).revision(before.RevisionRange)
			}
		}
		before = now
	}
}

// judgeTimes looks at each version of the Lease that its holder has written. The time of the
// renewal in it is the writer's, when it sent the write. All replicas use one clock.
func (b *judgement) judgeTimes() {
	received := map[history.RevisionRange]time.Time{}
	for _, r := range b.History.Requests {
		if _, exact := r.Exact(); exact && b.ours(r) && r.Key == b.Contract.Lease && r.Effect == history.Stored {
			received[r.RevisionRange] = r.Received
		}
	}
	for i := range b.History.Versions {
		v := &b.History.Versions[i]
		at, written := received[v.RevisionRange]
		if v.Key != b.Contract.Lease || v.Gone || !written || v.HolderIdentity() == "" || lasting(v) == 0 {
			continue
		}
		if renewed, known := renewedAt(v); known && at.Sub(renewed) > lasting(v) {
			b.addViolation("the Lease that %s wrote at %s had been renewed %s before, and its duration is %s", v.HolderIdentity(),
				v.RevisionRange, at.Sub(renewed).Round(time.Millisecond), lasting(v)).revision(v.RevisionRange)
		}
	}
}

// renewedAt is the renew time in a version of the Lease.
func renewedAt(lease *history.Version) (at time.Time, known bool) {
	text, _, _ := unstructured.NestedString(lease.Object.Object, "spec", "renewTime")
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}

// noted bounds the delay with which the harness records the end of a process. It is short: a leader
// whose Lease was stolen ends at its next renewal, which does not excuse the theft.
const noted = 100 * time.Millisecond

// endedBetween reports whether the process that renewed the Lease at from had ended at until. The
// identity begins with its Pod's name, so the process is that Pod's last one that started before.
func (b *judgement) endedBetween(identity string, from, until time.Time) bool {
	holder := b.processAt(from, func(name string) bool { return strings.HasPrefix(identity, name+"_") })
	return holder != nil && !holder.Ended.IsZero() && !holder.Ended.After(until.Add(noted))
}

// lasting returns the duration of a version of the Lease.
func lasting(lease *history.Version) time.Duration {
	seconds, _, _ := unstructured.NestedInt64(lease.Object.Object, "spec", "leaseDurationSeconds")
	return time.Duration(seconds) * time.Second
}
