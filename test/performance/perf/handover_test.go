// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/leasehold"
)

// at returns a time, in milliseconds.
func at(ms int) time.Time {
	return time.Date(2030, 1, 1, 0, 0, 0, ms*int(time.Millisecond), time.UTC)
}

// request is a request of a Pod at a time, answered 2 ms later; version 0 is a response without one.
func request(pod string, ms int, verb, group, resource string, code, version int, spec string) auditv1.Event {
	e := auditv1.Event{
		AuditID: types.UID(fmt.Sprintf("%s-%s-%d", pod, resource, ms)),
		Stage:   auditv1.StageResponseComplete, Verb: verb, RequestURI: "/" + resource,
		User: authenticationv1.UserInfo{Username: leasehold.User,
			Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {pod}}},
		ObjectRef:                &auditv1.ObjectReference{APIGroup: group, Resource: resource, Name: "x"},
		ResponseStatus:           &metav1.Status{Code: int32(code)},
		RequestReceivedTimestamp: metav1.NewMicroTime(at(ms)), StageTimestamp: metav1.NewMicroTime(at(ms + 2)),
	}
	if resource == "leases" {
		e.ObjectRef.Namespace, e.ObjectRef.Name = leasehold.Namespace, leasehold.Lease
	}
	if version > 0 {
		e.ResponseObject = &runtime.Unknown{Raw: fmt.Appendf(nil,
			`{"kind":"X","metadata":{"name":%q,"resourceVersion":"%d"},"spec":%s}`, e.ObjectRef.Name, version, spec)}
	}
	return e
}

// renews is a write to the Lease that keeps its holder.
func renews(pod, holder string, ms, version int) auditv1.Event {
	return request(pod, ms, "update", "coordination.k8s.io", "leases", http.StatusOK, version,
		fmt.Sprintf(`{"holderIdentity":%q,"leaseDurationSeconds":1,"renewTime":%q}`, holder,
			at(ms-1).Format(metav1.RFC3339Micro)))
}

// works is a write to an object that the operator manages.
func works(pod string, ms, version int) auditv1.Event {
	return request(pod, ms, "patch", "rbac.authorization.k8s.io", "clusterrolebindings", http.StatusOK, version, "{}")
}

// records is the creation of an event, which any client may do.
func records(pod string, ms, version int) auditv1.Event {
	return request(pod, ms, "create", "events.k8s.io", "events", http.StatusCreated, version, "{}")
}

// reports is a kubelet's write of a Pod's status.
func reports(pod string, ms, version int) auditv1.Event {
	e := request("", ms, "patch", "", "pods", http.StatusOK, version, "{}")
	e.User.Username, e.ObjectRef.Name, e.ObjectRef.Subresource = "kubelet", pod, "status"
	return e
}

func TestObserve(t *testing.T) {
	before := []auditv1.Event{renews("a", "a_1", 0, 10), works("a", 50, 11), renews("a", "a_1", 100, 12),
		works("a", 150, 13)}
	lost := loss{leader: "a", at: at(200), ended: at(210)}
	slow := request("a", 290, "delete", "", "namespaces", http.StatusOK, 0, "")
	slow.StageTimestamp = metav1.NewMicroTime(at(320))
	for name, tc := range map[string]struct {
		reason string
		lost   loss
		after  []auditv1.Event
		want   handover
		fails  string
	}{
		"Killed": {
			reason: "its last write is before the release, and the next leader writes after it leads",
			after: []auditv1.Event{
				reports("a", 220, 14), records("b", 290, 15), renews("b", "b_1", 300, 16), works("b", 310, 17), reports("a", 315, 18),
				works("b", 320, 19),
			},
			want: handover{renewed: at(100), expired: at(1099), last: at(152), reported: at(222),
				acquired: at(302), first: at(312)},
		},
		"Stopped": {
			reason: "it works on until it gives the Lease back, which is no renewal",
			after: []auditv1.Event{
				renews("a", "a_1", 210, 14), works("a", 220, 15), renews("a", "", 230, 16), renews("b", "b_1", 300, 17),
				works("b", 305, 18),
			},
			want: handover{renewed: at(210), expired: at(1209), last: at(222), released: at(232),
				acquired: at(302), first: at(307)},
		},
		"Zombie": {
			reason: "it was paused, and two writes come under the next leader; an event may",
			after: []auditv1.Event{
				renews("b", "b_1", 300, 14), works("b", 310, 15), works("a", 320, 16), works("b", 330, 17), works("a", 340, 18),
				records("a", 350, 19),
			},
			want: handover{renewed: at(100), expired: at(1099), last: at(152), acquired: at(302), first: at(312), strays: 2},
		},
		"Undecided": {
			reason: "a deletion went on while the leader changed",
			after:  []auditv1.Event{slow, renews("b", "b_1", 300, 14), works("b", 310, 15)},
			want: handover{renewed: at(100), expired: at(1099), last: at(152), acquired: at(302), first: at(312),
				undecided: 1},
		},
		"InTime": {
			reason: "a request that was sent and stored before is not late",
			after:  []auditv1.Event{works("a", 299, 14), renews("b", "b_1", 300, 15), works("b", 310, 16)},
			want:   handover{renewed: at(100), expired: at(1099), last: at(301), acquired: at(302), first: at(312)},
		},
		"NoReplica": {reason: "the Lease runs out", after: []auditv1.Event{records("b", 300, 14)},
			fails: errNoSuccessor.Error()},
		"Itself": {reason: "it was started again",
			after: []auditv1.Event{renews("a", "a_2", 300, 14), works("a", 310, 15)}, fails: errNoSuccessor.Error()},
		"Idle": {reason: "the next one does nothing", after: []auditv1.Event{renews("b", "b_1", 300, 14)},
			fails: "the new leader b has written nothing"},
		"NotLeader": {reason: "another one was lost than led", lost: loss{leader: "b", at: at(200)},
			fails: `b was to be lost as the leader, and "a" led`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if tc.lost.leader == "" {
				tc.lost = lost
			}
			got, err := observe(slices.Concat(before, tc.after), tc.lost)
			if tc.fails != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.fails)), tc.reason)
				return
			}
			g.Expect(err).NotTo(HaveOccurred(), tc.reason)
			tc.want.loss, tc.want.next, got.expired = tc.lost, "b", got.expired.UTC()
			g.Expect(got).To(Equal(tc.want), tc.reason)
		})
	}
}

// Requests from unidentified processes count against the paused leader.
func TestCallsAfter(t *testing.T) {
	j := fault.Journal{Requests: []fault.ProxiedRequest{
		{Peer: "old", Received: at(10)}, {Peer: "old", Received: at(20)}, {Peer: "old", Received: at(21)},
		{Peer: "next", Received: at(22)}, {Received: at(19)}, {Received: at(23)},
	}}
	for end, want := range map[int]int{23: 0, 20: 2, 0: 5} {
		NewWithT(t).Expect(callsAfter(j, at(end), "next")).To(Equal(want))
	}
}
