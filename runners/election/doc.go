// SPDX-License-Identifier: Apache-2.0

// Package election decides which replica leads. Its Lock stands behind client-go's elector, as a
// resourcelock.Interface, and replaces the elector's polling:
//
//   - A standby watches the Lease. Get blocks until the standby may take it over, so the
//     elector's jittered pause delays nothing, and a waiting standby sends no requests.
//   - A standby also watches the Pod that the Lease names. It takes over at once when the
//     kubelet reports that the holder's container ended; see endOf for what counts.
//   - A leader has a Term, which ends by itself one lease duration after the leader sent its
//     last successful renewal. The Term guards the transports of the clients.
//
// The time at which a Lease expires is measured from the last renewal that this process
// observed, by a clock of this machine. Times that other machines wrote are never compared
// with it.
//
// An early takeover relies on the kubelet. An operator that cannot accept two leaders if a
// kubelet is wrong needs a fence in the API server; config/fencing is one.
//
// While Get blocks, the elector does not see the holder, so a standby does not call
// LeaderCallbacks.OnNewLeader. Controller-runtime does not use that callback.
package election
