// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/record"
)

// line is one line of an audit log, named by its auditID. As many seconds past
// midnight as the name has letters it was received.
func line(id, user, verb, stage, uri, ref string, code int, more ...string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":%q,"stage":%q,`+
		`"requestURI":%q,"verb":%q,"user":{"username":%q},"objectRef":%s,"responseStatus":{"metadata":{},"code":%d},`+
		`"requestReceivedTimestamp":"2030-01-01T00:00:0%d.000000Z","stageTimestamp":"2030-01-01T00:00:09.000000Z"%s}`+"\n",
		id, stage, uri, verb, user, ref, code, len(id)%10, strings.Join(more, ""))
}

const (
	done       = "ResponseComplete"
	configMaps = `{"resource":"configmaps","namespace":"ns","name":"a","apiVersion":"v1"}`
	leases     = `{"resource":"leases","namespace":"ns","name":"l","apiGroup":"coordination.k8s.io","apiVersion":"v1"}`
	reviews    = `{"resource":"tokenreviews","apiGroup":"authentication.k8s.io","apiVersion":"v1"}`
)

var handMade = []string{
	line("read", "op", "get", done, "/api/v1/x", configMaps, 200),
	line("watch", "op", "watch", "ResponseStarted", "/api/v1/x?watch=true", configMaps, 200),
	line("create-early", "op", "create", "ResponseStarted", "/api/v1/x", configMaps, 201),
	line("create", "op", "create", done, "/api/v1/x", configMaps, 201),
	line("patch", "op", "patch", done, "/api/v1/x?fieldManager=op", configMaps, 200),
	line("refused", "op", "delete", done, "/api/v1/x", configMaps, 403),
	line("dry", "op", "update", done, "/api/v1/x?dryRun=All", configMaps, 200),
	line("review", "op", "create", done, "/apis/authentication.k8s.io/v1/tokenreviews", reviews, 201),
	line("lease", "op", "update", done, "/apis/x", leases, 200),
	line("other", "someone", "deletecollection", done, "/api/v1/x", configMaps, 200),
	line("as-op", "root", "update", done, "/api/v1/x", configMaps, 200,
		`,"impersonatedUser":{"username":"op"}`),
	line("op-as-other", "op", "update", done, "/api/v1/x", configMaps, 200, `,"impersonatedUser":{"username":"other"}`),
	line("panic", "op", "update", "Panic", "/api/v1/x", configMaps, 500),
}

func write(t *testing.T, content string) string {
	t.Helper()
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

func appendTo(t *testing.T, path, content string) {
	t.Helper()
	g := NewWithT(t)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	if _, err := file.WriteString(content); err != nil {
		t.Fatal(err)
	}
}

func ids(events []auditv1.Event) []string {
	all := []string{}
	for _, e := range events {
		all = append(all, string(e.AuditID))
	}
	return all
}

func TestSelection(t *testing.T) {
	g := NewWithT(t)
	events, err := record.ReadAuditLog(write(t, strings.Join(handMade, "")))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(events).To(HaveLen(len(handMade)))
	second := func(s int) time.Time { return time.Date(2030, 1, 1, 0, 0, s, 0, time.UTC) }
	isLease := record.Resource("coordination.k8s.io", "leases")
	cases := map[string]struct {
		reason string
		got    []auditv1.Event
		want   []string
	}{
		"Writes": {"attempts count, dry runs and reviews do not, each request once", record.Writes(events, "op"),
			[]string{"create", "patch", "refused", "lease", "as-op", "panic"}},
		"WritesBut": {"without the election", record.Writes(events, "op", record.Not(isLease)),
			[]string{"create", "patch", "refused", "as-op", "panic"}},
		"WritesDone": {"only those that succeeded", record.Writes(events, "op", record.Succeeded),
			[]string{"create", "patch", "lease", "as-op"}},
		"WritesOfNone": {"a user who did nothing", record.Writes(events, "nobody"), []string{}},
		"Collection":   {"deleting a collection is a write", record.Writes(events, "someone"), []string{"other"}},
		"Verb":         {"by verb", record.Select(events, record.Verb("get", "watch")), []string{"read", "watch"}},
		"Resource":     {"by group and resource", record.Select(events, isLease), []string{"lease"}},
		"CoreResource": {"the core group is not every group", record.Select(events, record.Resource("", "leases")),
			[]string{}},
		"Name": {"by namespace and name", record.Select(events, record.InNamespace("ns"), record.Named("l")),
			[]string{"lease"}},
		"Since": {"from a time on, that time included",
			record.Select(events, record.Verb("get", "patch"), record.Since(second(5))), []string{"patch"}},
		"All": {"no condition at all", record.Select(events[:2]), []string{"read", "watch"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(ids(tc.got)).To(BeComparableTo(tc.want), tc.reason)
		})
	}
}

func TestConflicted(t *testing.T) {
	g := NewWithT(t)
	answered := func(verb string, code int32, causes ...metav1.StatusCause) auditv1.Event {
		return auditv1.Event{Verb: verb,
			ResponseStatus: &metav1.Status{Code: code, Details: &metav1.StatusDetails{Causes: causes}}}
	}
	invalid := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec"}
	for name, tc := range map[string]struct {
		event auditv1.Event
		want  bool
	}{
		"another version":             {answered("patch", 409), true},
		"there already":               {answered("create", 409), true},
		"a comparison that failed":    {answered("patch", 422), true},
		"a value that is not valid":   {answered("patch", 422, invalid), false},
		"an object that is invalid":   {answered("create", 422), false},
		"not found":                   {answered("patch", 404), false},
		"done":                        {answered("patch", 200), false},
		"an answer that is not known": {auditv1.Event{Verb: "patch"}, false},
	} {
		g.Expect(record.Conflicted(tc.event)).To(Equal(tc.want), name)
	}
}

func TestReadingFromABookmark(t *testing.T) {
	g := NewWithT(t)
	path := write(t, handMade[0]+handMade[3])
	bookmark, err := record.End(path)
	g.Expect(err).NotTo(HaveOccurred())
	expectNext := func(reason string, want ...string) {
		t.Helper()
		var events []auditv1.Event
		events, bookmark, err = record.ReadAuditLogFrom(path, bookmark)
		g.Expect(err).NotTo(HaveOccurred(), reason)
		g.Expect(ids(events)).To(BeComparableTo(append([]string{}, want...)), reason)
	}
	expectNext("nothing happened since")
	appendTo(t, path, handMade[4]+handMade[5][:20])
	expectNext("the last line is not complete yet", "patch")
	expectNext("still not")
	appendTo(t, path, handMade[5][20:]+"\n"+handMade[8])
	expectNext("now it is; empty lines mean nothing", "refused", "lease")

	g.Expect(os.Truncate(path, 10)).To(Succeed())
	_, _, err = record.ReadAuditLogFrom(path, bookmark)
	g.Expect(err).To(MatchError(ContainSubstring("rotated or truncated")))
}

func TestReadingGoesWrong(t *testing.T) {
	cases := map[string]struct{ path, want string }{
		"Missing": {filepath.Join(t.TempDir(), "none.log"), "opening the audit log"},
		"Garbage": {write(t, handMade[0]+"garbage\n"), fmt.Sprintf("decoding the audit log at byte %d", len(handMade[0]))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := record.ReadAuditLog(tc.path)
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			_, err = record.End(tc.path)
			g.Expect(err).To(HaveOccurred())
		})
	}
}

func TestLongLines(t *testing.T) {
	g := NewWithT(t)
	long := line("long", "op", "create", done, "/api/v1/x", configMaps, 201,
		`,"annotations":{"a":"`+strings.Repeat("x", 1<<20)+`"}`)
	events, err := record.ReadAuditLog(write(t, long+handMade[0]))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ids(events)).To(Equal([]string{"long", "read"}))
}
