package run

import (
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/record"
)

// companionUser follows the user of a companion's requests. A companion may act as the subject's
// ServiceAccount, and its requests are not the subject's.
const companionUser = " (companion)"

// readAuditLog reads the audit log from a bookmark to its end.
func (p *Prover) readAuditLog(from record.Bookmark) ([]auditv1.Event, record.Bookmark, error) {
	events, end, err := record.ReadAuditLogFrom(p.auditLog, from)
	if p.installation != nil {
		separateCompanions(events, p.installation.IsCompanion)
	}
	return events, end, err
}

// separateCompanions gives the requests of the Pods of companions users of their own.
func separateCompanions(events []auditv1.Event, isCompanion func(pod string) bool) {
	for i := range events {
		if isCompanion(record.PodOf(events[i])) {
			events[i].User.Username += companionUser
		}
	}
}
