// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/history"
)

func TestNeighbours(t *testing.T) {
	g := NewWithT(t)
	epoch := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	request := func(version uint64, effect history.Effect, received, answered int) history.Request {
		return history.Request{RevisionRange: history.At(version), Effect: effect, Received: at(received),
			Answered: at(answered)}
	}
	vague := request(0, history.Deleted, 31, 32)
	vague.RevisionRange = history.RevisionRange{From: 1, To: 99}
	h := &history.History{Requests: []history.Request{
		request(5, history.Stored, 1, 2),
		request(4, history.Stored, 1, 3), // answered later and stored before
		request(7, history.Stored, 9, 11),
		request(6, history.Unchanged, 4, 5), // no evidence of its time
		request(12, history.Deleted, 30, 31),
		request(13, history.Stored, 33, 34),
		request(3, history.Unchanged, 40, 41),
		vague,
	}}
	for name, tc := range map[string]struct {
		began, ended time.Time
		want         history.RevisionRange
	}{
		"Between":     {at(10), at(20), history.RevisionRange{From: 5, To: 12}},
		"AfterAll":    {at(50), at(60), history.RevisionRange{From: 13}},
		"BeforeAll":   {at(0), at(0), history.RevisionRange{To: 4}},
		"WithoutEnd":  {at(10), time.Time{}, history.RevisionRange{From: 5}},
		"AtOnce":      {at(11), at(29), history.RevisionRange{From: 7, To: 12}},
		"Overlapping": {at(10), at(30), history.RevisionRange{From: 5, To: 13}},
	} {
		g.Expect(h.Neighbours(tc.began, tc.ended)).To(Equal(tc.want), name)
	}
}
