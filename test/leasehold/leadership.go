// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"fmt"
	"slices"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

// Leadership has the writes of replicas that did not lead when they wrote.
type Leadership struct {
	Terms []history.Term
	// Judged is the number of writes by the leader at their time.
	Judged int
	// Strays describe writes of replicas that did not lead when the store accepted them. Undecided describe writes
	// during a change of the leader.
	Strays, Undecided []string
}

// JudgeWrites finds the writes that did not come from the holder of the election's Lease. events are all events of the
// log, with the bodies of Leases; writes are successful writes. It ignores writes without an effect.
func JudgeWrites(events, writes []auditv1.Event) (Leadership, error) {
	log, err := record.FromAudit(events)
	if err != nil {
		return Leadership{}, fmt.Errorf("reading the terms of leaders: %w", err)
	}
	l := Leadership{Terms: log.Terms(history.Key{Resource: history.Leases, Namespace: Namespace, Name: Lease})}
	requests := map[string]history.Request{}
	for _, r := range log.Requests {
		requests[r.ID] = r
	}
	for _, w := range writes {
		r := requests[string(w.AuditID)]
		if r.Effect == history.Unchanged {
			continue
		}
		leaders := history.HeldDuring(l.Terms, r.RevisionRange)
		text := fmt.Sprintf("%s %s by Pod %q at %s under %q", w.Verb, w.RequestURI, r.Replica,
			w.StageTimestamp.UTC().Format(time.StampMicro), leaders)
		switch {
		case r.Replica == "" || !slices.Contains(leaders, r.Replica):
			l.Strays = append(l.Strays, text)
		case len(leaders) > 1:
			l.Undecided = append(l.Undecided, text)
		default:
			l.Judged++
		}
	}
	return l, nil
}
