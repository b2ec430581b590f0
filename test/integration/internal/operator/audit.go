// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/record"
)

// AuditPosition returns the current end of the audit log.
func (s *Suite) AuditPosition() record.Bookmark {
	GinkgoHelper()
	position, err := record.End(s.auditLog())
	Expect(err).NotTo(HaveOccurred())
	return position
}

// Events returns the events of the audit log since a position, and its current end.
func (s *Suite) Events(since record.Bookmark) ([]auditv1.Event, record.Bookmark) {
	GinkgoHelper()
	events, end, err := record.ReadAuditLogFrom(s.auditLog(), since)
	Expect(err).NotTo(HaveOccurred())
	return events, end
}

// Writes returns the operator's attempted writes since a position that meet the conditions, each as
// "verb resource/subresource name". It omits the Lease and events.
func (s *Suite) Writes(since record.Bookmark, conditions ...record.Filter) []string {
	GinkgoHelper()
	events, _ := s.Events(since)
	conditions = append(conditions,
		record.Not(record.Resource("coordination.k8s.io", "leases")), record.Not(record.Resource("events.k8s.io", "events")))
	var writes []string
	for _, e := range record.Writes(events, User, conditions...) {
		o := e.ObjectRef
		writes = append(writes, fmt.Sprintf("%s %s/%s %s", e.Verb, o.Resource, o.Subresource, o.Name))
	}
	return writes
}

// Reads returns the operator's reads since a position that meet the conditions, each as "verb
// resource namespace/name".
func (s *Suite) Reads(since record.Bookmark, conditions ...record.Filter) []string {
	GinkgoHelper()
	events, _ := s.Events(since)
	var reads []string
	for _, e := range record.Select(events,
		append(conditions, record.User(User), record.Verb("get", "list", "watch"))...) {
		reads = append(reads, fmt.Sprintf("%s %s %s/%s", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace,
			e.ObjectRef.Name))
	}
	return reads
}

// FirstStatus reads o, one of our kinds, with the first status that the operator wrote.
func (s *Suite) FirstStatus(resource string, o client.Object) {
	GinkgoHelper()
	log := s.auditLog()
	// A client may see the status before the API server has logged the request.
	Eventually(func(g Gomega) {
		events, err := record.ReadAuditLog(log)
		g.Expect(err).NotTo(HaveOccurred())
		writes := record.Writes(events, User, record.Resource(v1beta1.GroupVersion.Group, resource),
			record.InNamespace(o.GetNamespace()), record.Named(o.GetName()), record.Succeeded)
		first := slices.IndexFunc(writes, func(e auditv1.Event) bool { return e.ObjectRef.Subresource == "status" })
		g.Expect(first).To(BeNumerically(">=", 0), "the operator wrote no status of "+o.GetName())
		g.Expect(json.Unmarshal(writes[first].ResponseObject.Raw, o)).To(Succeed())
	}).Should(Succeed())
}

// auditLog skips the spec if there is no audit log.
func (s *Suite) auditLog() string {
	GinkgoHelper()
	if s.shared.AuditLog == "" {
		Skip("needs the audit log, which an existing cluster does not share")
	}
	return s.shared.AuditLog
}
