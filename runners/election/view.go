// SPDX-License-Identifier: Apache-2.0

package election

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
)

// view is the state of the Lease and of its holder's Pod that a standby has observed. All times are
// by this machine's clock, as Options.Elapsed gives it.
type view struct {
	identity  string
	podUID    types.UID
	container string
	evidence  bool

	known   bool                  // the Lease was read
	lease   *coordinationv1.Lease // nil where there is none
	version string                // the newest observed resourceVersion
	renewed time.Duration         // when the last renewal was observed
	heldFor time.Duration         // after the Lease was deleted: until when its holder may lead

	pod   *corev1.Pod // the holder's, as last observed
	ended string      // the evidence that the holder ended, "" without
	endAt time.Duration

	outdated bool          // a write showed that a newer version may exist
	broken   bool          // there is no watch
	heard    time.Duration // when the watch last showed something, or began
	readAt   time.Duration // when the last successful live read began
	mayRead  time.Duration // not before this is another live read sent
	failed   bool          // the last live read
}

// action is what a standby does next.
type action int

const (
	wait action = iota
	readLive
	takeLease
)

// decision is an action, with the reason of a takeover or the end of a wait.
type decision struct {
	action
	reason string
	until  time.Duration
}

// observe updates the view with a state of the Lease; nil means that there is none. Versions that
// are not newer change nothing: a restarted watch sends known versions, and a watch that lags
// behind a live read sends older ones.
func (v *view) observe(lease *coordinationv1.Lease, now time.Duration) {
	if lease == nil {
		v.observeNone(now)
		return
	}
	if v.known && v.lease != nil && v.lease.ResourceVersion == lease.ResourceVersion {
		return
	}
	if v.version != "" && !isNewer(lease.ResourceVersion, v.version) {
		return
	}
	// A change by another client, such as a label, is not a renewal.
	if v.lease == nil || v.lease.UID != lease.UID || !apiequality.Semantic.DeepEqual(v.lease.Spec, lease.Spec) {
		v.renewed = now
	}
	v.known, v.lease, v.version, v.outdated, v.heldFor = true, lease, lease.ResourceVersion, false, 0
	v.judge(now)
}

// observeNone updates the view after a deletion of the Lease. Its holder creates it again with the
// next renewal and may not have observed the deletion, so the holder keeps its whole lease duration
// from now.
func (v *view) observeNone(now time.Duration) {
	if v.lease != nil {
		if holder := ptr.Deref(v.lease.Spec.HolderIdentity, ""); holder != "" && holder != v.identity {
			v.heldFor = now + leaseDuration(v.lease)
		}
	}
	v.known, v.lease, v.outdated = true, nil, false
	v.judge(now)
}

// observeLive updates the view with the response to a live read that was sent at began. The result
// of a live read is not outdated.
func (v *view) observeLive(lease *coordinationv1.Lease, began, now time.Duration) {
	v.outdated, v.failed, v.readAt = false, false, began
	v.observe(lease, now)
}

// observePod updates the view with a state of the holder's Pod. The last state before a deletion
// also counts, because an ended container does not start again. So another Pod with the name does
// not replace it.
func (v *view) observePod(pod *corev1.Pod, now time.Duration) {
	if h, named := holderOf(v.lease); !named || pod.UID != h.uid {
		return
	}
	v.pod = pod
	v.judge(now)
}

// judge looks for evidence in the view.
func (v *view) judge(now time.Duration) {
	h, named := holderOf(v.lease)
	if !v.evidence || !named {
		v.ended = ""
		return
	}
	if h.uid == v.podUID && ptr.Deref(v.lease.Spec.HolderIdentity, "") != v.identity {
		// A kubelet starts a container only after the previous one has ended. The Lease itself
		// shows this, so no later read has to confirm it.
		v.ended, v.endAt = "an earlier process in this Pod held the Lease", 0
		return
	}
	ended := endOf(v.pod, h, v.container)
	if ended != "" && v.ended == "" {
		v.endAt = now
	}
	v.ended = ended
}

// failClaim updates the view after a failed write. The version that it was based on is outdated, or
// the write succeeded without a response. The watch shows which, or a live read if the watch is
// slow.
func (v *view) failClaim(now, retryPeriod time.Duration) {
	v.outdated, v.mayRead = true, now+retryPeriod
}

// decide returns the decision of a standby.
func (v *view) decide(now, retryPeriod time.Duration) decision {
	if !v.known || v.outdated {
		return v.readFrom(v.mayRead, now)
	}
	if v.lease == nil {
		if now < v.heldFor {
			return v.waitUntil(v.heldFor, now, retryPeriod)
		}
		return decision{action: takeLease, reason: "there was no Lease"}
	}
	expiry := v.renewed + leaseDuration(v.lease)
	switch holder := ptr.Deref(v.lease.Spec.HolderIdentity, ""); {
	case holder == "":
		// No read has to confirm this: a write to an outdated version fails.
		return decision{action: takeLease, reason: "released"}
	case holder == v.identity:
		return decision{action: takeLease, reason: "an earlier write got no response"}
	case v.ended != "":
		return v.takeAfterRead(v.endAt, now, "evidence: "+v.ended)
	case now >= expiry:
		return v.takeAfterRead(expiry, now, "expired")
	}
	return v.waitUntil(expiry, now, retryPeriod)
}

// takeAfterRead takes the Lease if a live read that began at or after since has confirmed that
// the Lease still allows it.
func (v *view) takeAfterRead(since, now time.Duration, reason string) decision {
	if v.readAt >= since {
		return decision{action: takeLease, reason: reason}
	}
	if v.failed {
		return v.readFrom(v.mayRead, now)
	}
	return decision{action: readLive}
}

// readFrom reads at the given time.
func (v *view) readFrom(from, now time.Duration) decision {
	if now >= from {
		return decision{action: readLive}
	}
	return decision{action: wait, until: from}
}

// waitUntil waits. It reads before if there is no watch, or if the watch is silent for longer than
// the renewals of a leader allow.
func (v *view) waitUntil(until, now, retryPeriod time.Duration) decision {
	poll := v.mayRead
	if !v.broken {
		poll = max(poll, v.heard+silentPeriods*retryPeriod)
	}
	if next := v.readFrom(poll, now); next.action == readLive || next.until < until {
		return next
	}
	return decision{action: wait, until: until}
}

// silentPeriods is the number of retry periods after which a silent watch counts as broken.
const silentPeriods = 2

// isNewer compares versions as numbers, which the API server allows. If they are not numbers,
// another version counts as newer, which at most delays a takeover.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}
