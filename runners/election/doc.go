// SPDX-License-Identifier: Apache-2.0

// Package election decides which replica is the leader. Its Lock is a resourcelock.Interface for
// client-go's leader elector, and replaces the elector's polling:
//
//   - A standby watches the Lease. Get blocks until the standby may take it over, so the
//     elector's jittered pause delays nothing, and a waiting standby sends no requests.
//   - A standby also watches the Pod that the Lease names. It takes over immediately when the
//     kubelet reports that the holder's container has exited; see endOf for the conditions.
//   - A leader has a Term, which ends one lease duration after the leader sent its last
//     successful renewal. After that the clients that the Term guards reject writes.
//
// A process measures the expiry of a Lease with its own clock, from the last renewal that the
// process observed. It never compares timestamps of other machines with its clock.
//
// An early takeover relies on the report of the kubelet. If an operator must never have two
// leaders, even if a kubelet reports a wrong status, it needs a fence in the API server, such as
// the admission policy in config/fencing.
//
// While Get blocks, the elector does not see the holder, so a standby does not call
// LeaderCallbacks.OnNewLeader. controller-runtime does not use that callback.
package election
