// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

// thing is a stored example.com Thing; more are fields of its metadata.
func thing(uid string, version int, more ...string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t","namespace":"ns","uid":%q,"resourceVersion":"%d"%s}}`,
		uid, version, strings.Join(more, ""))
}

const (
	success   = `{"kind":"Status","metadata":{},"status":"Success"}`
	leaving   = `,"deletionTimestamp":"2030-01-01T00:00:00Z"`
	finalizer = `,"finalizers":["example.com/f"]`
)

// ask returns an audit event of an operator's Pod: received at one millisecond and answered at another.
func ask(id, pod string, from, to int, verb, group, resource, answer string) auditv1.Event {
	at := func(ms int) metav1.MicroTime {
		return metav1.NewMicroTime(time.Date(2030, 1, 1, 0, 0, 0, ms*int(time.Millisecond), time.UTC))
	}
	e := auditv1.Event{
		AuditID: types.UID(id), Stage: auditv1.StageResponseComplete, Verb: verb, RequestURI: "/" + id,
		User:                     authenticationv1.UserInfo{Username: "op"},
		ObjectRef:                &auditv1.ObjectReference{APIGroup: group, Resource: resource, Namespace: "ns", Name: "l"},
		ResponseStatus:           &metav1.Status{Code: 200},
		RequestReceivedTimestamp: at(from), StageTimestamp: at(to),
	}
	if pod != "" {
		e.User.Extra = map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {pod}}
	}
	if answer != "" {
		e.ResponseObject = &runtime.Unknown{Raw: []byte(answer)}
	}
	return e
}

// asked returns an event about the Thing ns/t that took 2 ms, with these changes.
func asked(id string, ms int, verb, answer string, mutate ...func(*auditv1.Event)) auditv1.Event {
	e := ask(id, "pod-a", ms, ms+2, verb, "example.com", "things", answer)
	e.ObjectRef.Name = "t"
	for _, f := range mutate {
		f(&e)
	}
	return e
}

func code(c int) func(*auditv1.Event) {
	return func(e *auditv1.Event) { e.ResponseStatus.Code = int32(c) }
}
func body(text string) func(*auditv1.Event) {
	return func(e *auditv1.Event) { e.RequestObject = &runtime.Unknown{Raw: []byte(text)} }
}
func query(q string) func(*auditv1.Event) { return func(e *auditv1.Event) { e.RequestURI += "?" + q } }
func sub(s string) func(*auditv1.Event) {
	return func(e *auditv1.Event) { e.ObjectRef.Subresource = s }
}
func stage(s auditv1.Stage) func(*auditv1.Event) {
	return func(e *auditv1.Event) { e.Stage = s }
}
func about(resource, namespace, name string) func(*auditv1.Event) {
	return func(e *auditv1.Event) {
		e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name = "", resource, namespace, name
	}
}

func create() auditv1.Event { return asked("create", 0, "create", thing("u1", 10), code(201)) }

var audits = map[string]struct {
	reason   string
	events   []auditv1.Event
	requests []string
	versions []string
}{
	"Create": {
		"what was made, and by an apply as well",
		[]auditv1.Event{create(), asked("apply", 10, "patch", thing("u2", 12), code(201), query("fieldManager=m&force=true"),
			body(`{"apiVersion":"example.com/v1","metadata":{"resourceVersion":"1"}}`))},
		[]string{"create stored @10 u1 made", "apply stored @12 u2 made body apply force needs /1"},
		[]string{"u1@10", "u2@12"},
	},
	"Status": {
		"a status write is a version of the object",
		[]auditv1.Event{create(), asked("status", 10, "patch", thing("u1", 11), sub("status"),
			body(`{"metadata":{"resourceVersion":"10"}}`))},
		[]string{"create stored @10 u1 made", "status stored @11 u1 body needs /10"},
		[]string{"u1@10", "u1@11"},
	},
	"JSONPatch": {
		"what a JSON patch compares is what it requires, and what it sets is not",
		[]auditv1.Event{
			asked("uid", 0, "patch", thing("u1", 11),
				body(`[{"op":"test","path":"/metadata/uid","value":"u1"},{"op":"test","path":"/status","value":null}]`)),
			asked("both", 10, "patch", thing("u1", 12),
				body(`[{"op":"test","path":"/metadata/uid","value":"u1"},{"op":"test","path":"/metadata/resourceVersion","value":"11"}]`)),
			asked("neither", 20, "patch", thing("u1", 13), body(`[{"op":"add","path":"/metadata/uid","value":"u1"}]`)),
		},
		[]string{"uid stored @11 u1 body needs u1/", "both stored @12 u1 body needs u1/11", "neither stored @13 u1 body"},
		[]string{"u1@11", "u1@12", "u1@13"},
	},
	"Scale": {
		"the answer of another subresource is not the object",
		[]auditv1.Event{create(), asked("scale", 10, "update", strings.Replace(thing("", 11), "Thing", "Scale", 1),
			sub("scale"))},
		[]string{"create stored @10 u1 made", "scale stored @11"},
		[]string{"u1@10"},
	},
	"Unchanged": {
		"the version is older than the request",
		[]auditv1.Event{create(), asked("same", 10, "patch", thing("u1", 10))},
		[]string{"create stored @10 u1 made", "same unchanged (10,0) u1"},
		[]string{"u1@10"},
	},
	"LastFinalizer": {
		"the answer has the version from before, and the object is gone",
		[]auditv1.Event{
			asked("create", 0, "create", thing("u1", 10, finalizer), code(201)),
			asked("delete", 10, "delete", thing("u1", 12, finalizer, leaving), body(`{"preconditions":{"uid":"u1"}}`)),
			asked("release", 20, "patch", thing("u1", 12, leaving)),
			asked("anew", 30, "create", thing("u2", 15), code(201)),
		},
		[]string{"create stored @10 u1 made", "delete stored @12 u1 body needs u1/", "release deleted (12,15) u1",
			"anew stored @15 u2 made"},
		[]string{"u1@10", "u1@12", "u1 gone (12,15)", "u2@15"},
	},
	"OneFinalizerOfTwo": {
		"an object with a finalizer is not gone",
		[]auditv1.Event{
			asked("delete", 0, "delete", thing("u1", 12, finalizer, leaving)),
			asked("release", 20, "patch", thing("u1", 13, finalizer, leaving)),
		},
		[]string{"delete stored @12 u1", "release stored @13 u1"},
		[]string{"u1@12", "u1@13"},
	},
	"PodStopping": {
		"a Pod has time to stop, and a write that changes nothing does not end it",
		[]auditv1.Event{
			asked("delete", 0, "delete", thing("u1", 12, leaving, `,"deletionGracePeriodSeconds":30`)),
			asked("same", 20, "patch", thing("u1", 12, leaving, `,"deletionGracePeriodSeconds":30`)),
		},
		[]string{"delete stored @12 u1", "same unchanged (12,0) u1"},
		[]string{"u1@12"},
	},
	"DeleteByName": {
		"a Status without a UID: the last object of that name",
		[]auditv1.Event{create(), asked("delete", 10, "delete", success),
			asked("anew", 20, "create", thing("u2", 14), code(201)), asked("again", 30, "delete", success)},
		[]string{"create stored @10 u1 made", "delete deleted (10,14) u1", "anew stored @14 u2 made",
			"again deleted (14,0) u2"},
		[]string{"u1@10", "u1 gone (10,14)", "u2@14", "u2 gone (14,0)"},
	},
	"UnchangedDatesNothing": {
		"an old version in a later answer is no bound of the deletion before it",
		[]auditv1.Event{create(), asked("delete", 10, "delete", success), asked("same", 20, "patch", thing("u1", 10)),
			asked("anew", 30, "create", thing("u2", 14), code(201))},
		[]string{"create stored @10 u1 made", "delete deleted (10,14) u1", "same unchanged (10,14) u1",
			"anew stored @14 u2 made"},
		[]string{"u1@10", "u1 gone (10,14)", "u2@14"},
	},
	"DeleteByUID": {
		"a Status with the UID of an object that was not recorded before",
		[]auditv1.Event{asked("delete", 10, "delete",
			`{"kind":"Status","metadata":{},"status":"Success","details":{"uid":"u9"}}`)},
		[]string{"delete deleted (0,0) u9"},
		[]string{"u9 gone (0,0)"},
	},
	"DeleteAnswersWithTheObject": {
		"some resources answer with what was deleted",
		[]auditv1.Event{create(), asked("delete", 10, "delete", thing("u1", 12, leaving))},
		[]string{"create stored @10 u1 made", "delete deleted @12 u1"},
		[]string{"u1@10", "u1 gone @12"},
	},
	"Collection": {
		"the answer does not name the objects, and the version of a list is no version of an object",
		[]auditv1.Event{create(), asked("all", 10, "deletecollection",
			`{"kind":"ThingList","metadata":{"resourceVersion":"77"},"items":[]}`,
			func(e *auditv1.Event) { e.ObjectRef.Name = "" })},
		[]string{"create stored @10 u1 made", "all deleted (10,0)"},
		[]string{"u1@10"},
	},
	"Refusals": {
		"conflicts and denials change nothing, and an answer with 5xx may have",
		[]auditv1.Event{create(), asked("conflict", 10, "update", `{"kind":"Status","metadata":{},"code":409}`, code(409)),
			asked("late", 20, "update", success, code(504)),
			asked("denied", 30, "delete", success, code(403), func(e *auditv1.Event) {
				e.Annotations = map[string]string{"authorization.k8s.io/decision": "forbid"}
			})},
		[]string{"create stored @10 u1 made", "conflict refused (10,0)", "late unknown (10,0)",
			"denied refused (10,0) forbidden"},
		[]string{"u1@10"},
	},
	"NeverStored": {
		"dry runs and tokens",
		[]auditv1.Event{create(), asked("check", 10, "update", thing("u1", 10), query("dryRun=All")),
			asked("token", 20, "create", `{"kind":"TokenRequest","metadata":{}}`, sub("token"))},
		[]string{"create stored @10 u1 made", "check dry (10,0) u1", "token dry (10,0)"},
		[]string{"u1@10"},
	},
	"Reads": {
		"once each, those that are still open too",
		[]auditv1.Event{create(), asked("list", 10, "list", ""), asked("open", 20, "watch", "", stage("ResponseStarted")),
			asked("over", 30, "watch", "", stage("ResponseStarted")), asked("over", 30, "watch", ""),
			asked("early", 40, "get", "", stage("RequestReceived"))},
		[]string{"create stored @10 u1 made", "list read (10,0)", "open read (10,0)", "over read (10,0)"},
		[]string{"u1@10"},
	},
	"TwoClaimOne": {
		"one of them changed nothing while the other was at work; which, the log does not show",
		[]auditv1.Event{create(), asked("a", 10, "patch", thing("u1", 12)), asked("b", 11, "patch", thing("u1", 12))},
		[]string{"create stored @10 u1 made", "a unknown @12 u1", "b unknown @12 u1"},
		[]string{"u1@10", "u1@12"},
	},
	"MakerAndClaimer": {
		"the one that made it is known",
		[]auditv1.Event{create(), asked("same", 1, "patch", thing("u1", 10))},
		[]string{"create stored @10 u1 made", "same unknown @10 u1"},
		[]string{"u1@10"},
	},
	"Namespace": {
		"the log puts a namespace in itself; its own finalizers hold it",
		[]auditv1.Event{
			asked("ns", 0, "delete", `{"kind":"Namespace","metadata":{"name":"n","uid":"n1","resourceVersion":"5"`+leaving+
				`},"spec":{"finalizers":["kubernetes"]}}`, about("namespaces", "n", "n")),
			asked("end", 10, "update", `{"kind":"Namespace","metadata":{"name":"n","uid":"n1","resourceVersion":"5"`+leaving+
				`},"spec":{}}`, about("namespaces", "n", "n"), sub("finalize")),
		},
		[]string{"ns stored @5 n1", "end deleted (5,0) n1"},
		[]string{"n1@5", "n1 gone (5,0)"},
	},
	"OnlyMetadata": {
		"a client that reads metadata only gets a version whose object is not known",
		[]auditv1.Event{create(), asked("gc", 10, "patch", strings.Replace(thing("u1", 12), `"Thing"`,
			`"PartialObjectMetadata"`, 1)), asked("next", 20, "patch", thing("u1", 14))},
		[]string{"create stored @10 u1 made", "gc stored @12 u1", "next stored @14 u1"},
		[]string{"u1@10", "u1@14"},
	},
	"OnlyMetadataOfANamespace": {
		"whether it is gone does not show there",
		[]auditv1.Event{
			asked("ns", 0, "delete", `{"kind":"Namespace","metadata":{"name":"n","uid":"n1","resourceVersion":"5"`+leaving+
				`},"spec":{"finalizers":["kubernetes"]}}`, about("namespaces", "n", "n")),
			asked("gc", 10, "patch", `{"kind":"PartialObjectMetadata","metadata":{"name":"n","uid":"n1","resourceVersion":"5"`+
				leaving+`}}`, about("namespaces", "n", "n")),
		},
		[]string{"ns stored @5 n1", "gc unchanged (5,0) n1"},
		[]string{"n1@5"},
	},
	"NoAnswers": {
		"a log without bodies, as of Secrets",
		[]auditv1.Event{create(), asked("new", 10, "create", "", about("secrets", "ns", "s"), code(201)),
			asked("secret", 20, "update", "", about("secrets", "ns", "s"))},
		[]string{"create stored @10 u1 made", "new stored (10,0) made", "secret stored (10,0)"},
		[]string{"u1@10"},
	},
}

func TestFromAudit(t *testing.T) {
	for name, tc := range audits {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			// The latest first, but the stages of one request in order.
			slices.SortStableFunc(tc.events, func(a, b auditv1.Event) int {
				return b.RequestReceivedTimestamp.Compare(a.RequestReceivedTimestamp.Time)
			})
			h, err := record.FromAudit(tc.events)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(requestsOf(h)).To(BeComparableTo(tc.requests), "%s: requests", tc.reason)
			g.Expect(versionsOf(h)).To(BeComparableTo(tc.versions), "%s: versions", tc.reason)
		})
	}
}

func spanOf(s history.RevisionRange) string {
	if version, exact := s.Exact(); exact {
		return fmt.Sprintf("@%d", version)
	}
	return fmt.Sprintf(" (%d,%d)", s.From, s.To)
}

func requestsOf(h *history.History) []string {
	byTime := slices.Clone(h.Requests)
	slices.SortStableFunc(byTime, func(a, b history.Request) int { return a.Received.Compare(b.Received) })
	var all []string
	for _, r := range byTime {
		text := r.ID + " " + string(r.Effect) + " " + strings.TrimSpace(spanOf(r.RevisionRange))
		add := func(there bool, word string) {
			if there {
				text += " " + word
			}
		}
		add(r.UID != "", string(r.UID))
		add(r.Made, "made")
		add(r.Body, "body")
		add(r.Apply, "apply")
		add(r.Force, "force")
		add(r.NeedsUID != "" || r.NeedsVersion != "", "needs "+string(r.NeedsUID)+"/"+r.NeedsVersion)
		add(r.Forbidden, "forbidden")
		all = append(all, text)
	}
	return all
}

func versionsOf(h *history.History) []string {
	var all []string
	for _, v := range h.Versions {
		text := string(v.UID)
		if v.Gone {
			text += " gone "
		}
		all = append(all, strings.ReplaceAll(text+spanOf(v.RevisionRange), "  ", " "))
	}
	return all
}

func TestFromAuditNamesReplicasAndUsers(t *testing.T) {
	g := NewWithT(t)
	named := asked("create", 0, "create", thing("u1", 10), code(201), func(e *auditv1.Event) { e.ObjectRef.Name = "" })
	as := asked("as", 10, "patch", thing("u1", 11))
	as.ImpersonatedUser = as.User.DeepCopy()
	as.ImpersonatedUser.Username = "other"
	h, err := record.FromAudit([]auditv1.Event{named, as})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(h.Requests).To(HaveExactElements(
		And(HaveField("Replica", "pod-a"), HaveField("User", "op"), HaveField("Name", "t")), // which the API server made up
		And(HaveField("Replica", ""), HaveField("User", "other")),
	))
	g.Expect(h.Recorded).To(HaveExactElements(history.Audit))
}

func TestFromAuditReadsEventsOfBothGroups(t *testing.T) {
	g := NewWithT(t)
	event := func(id string, group, text string, mutate ...func(*auditv1.Event)) auditv1.Event {
		e := asked(id, 0, "create", text, append(mutate, code(201))...)
		e.ObjectRef.APIGroup, e.ObjectRef.Resource = group, "events"
		return e
	}
	h, err := record.FromAudit([]auditv1.Event{
		event("new", "events.k8s.io", `{"kind":"Event","metadata":{"name":"e","uid":"e1","resourceVersion":"5"},"regarding":{"uid":"u1"},"type":"Normal","reason":"Made","note":"made it"}`),
		event("old", "", `{"kind":"Event","metadata":{"name":"f","uid":"e2","resourceVersion":"6"},"involvedObject":{"uid":"u2"},"type":"Warning","reason":"Lost","message":"lost it"}`),
		event("series", "events.k8s.io",
			`{"kind":"Event","metadata":{"name":"e","uid":"e1","resourceVersion":"7"},"regarding":{"uid":"u1"},"series":{"count":2,"lastObservedTime":"2030-01-01T00:00:01.5Z"}}`),
	})
	g.Expect(err).NotTo(HaveOccurred())
	var got []string
	for _, e := range h.Events {
		got = append(got, fmt.Sprintf("%s %s %s %s %q %t %s", e.Replica, e.Regarding, e.Type, e.Reason, e.Note, e.First,
			e.Observed.Format(time.TimeOnly)))
	}
	want := []string{`pod-a u1 Normal Made "made it" true 00:00:00`, `pod-a u2 Warning Lost "lost it" true 00:00:00`,
		`pod-a u1   "" true 00:00:01`}
	g.Expect(got).To(Equal(want))
	g.Expect(h.Versions).To(BeEmpty(), "of events")
}

func TestFromAuditRefusesGarbage(t *testing.T) {
	g := NewWithT(t)
	_, err := record.FromAudit([]auditv1.Event{asked("x", 0, "create", `{"metadata":{"resourceVersion":"5"}}`, code(201))})
	g.Expect(err).To(MatchError(ContainSubstring("decoding the answer of audit event x")))
}
