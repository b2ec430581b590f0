package record_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/record"
)

// ask is an audit event of an operator's Pod: received at one millisecond,
// answered at another, with an answer.
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

// holds is a write to the Lease that took 2 ms and left it to the holder.
func holds(holder string, ms, version int) auditv1.Event {
	pod, _, _ := strings.Cut(holder, "_")
	return ask(fmt.Sprintf("lease-%d", version), pod, ms, ms+2, "update", "coordination.k8s.io", "leases", fmt.Sprintf(
		`{"kind":"Lease","metadata":{"name":"l","uid":"u","resourceVersion":"%d"},"spec":{"holderIdentity":%q}}`, version, holder))
}

// unleases deletes the Lease; the answer is a Status.
func unleases(ms int) auditv1.Event {
	return ask("unlease", "", ms, ms+2, "delete", "coordination.k8s.io", "leases",
		`{"kind":"Status","metadata":{},"status":"Success"}`)
}

// writes is a write to something else that took 2 ms; version 0 is an answer without one.
func writes(id, pod string, ms, version int) auditv1.Event {
	answer := fmt.Sprintf(`{"kind":"Thing","metadata":{"resourceVersion":"%d"}}`, version)
	if version == 0 {
		answer = `{"kind":"Status","metadata":{},"status":"Success"}`
	}
	return ask(id, pod, ms, ms+2, "patch", "example.com", "things", answer)
}

var judgements = map[string]struct {
	reason            string
	events            []auditv1.Event
	terms             []string
	judged            int
	strays, undecided []string
}{
	"HandOver": {
		reason: "each writes while it leads; a renewal changes nothing, and a restart of the same Pod begins a term of the same Pod",
		events: []auditv1.Event{
			holds("a_1", 0, 10), writes("w1", "a", 5, 11), holds("a_1", 10, 12), holds("a_2", 20, 13),
			writes("w2", "a", 25, 14),
			holds("", 30, 15), holds("b_1", 40, 16), writes("w3", "b", 45, 17),
		},
		terms: []string{"a@10", "a@13", "@15", "b@16"}, judged: 3,
	},
	"Late": {
		reason: "stored after the other one took over, though asked for before",
		events: []auditv1.Event{holds("a_1", 0, 10), holds("b_1", 20, 12),
			ask("late", "a", 15, 30, "patch", "example.com", "things", `{"kind":"Thing","metadata":{"resourceVersion":"13"}}`)},
		terms: []string{"a@10", "b@12"}, strays: []string{"late [b]"},
	},
	"Standby": {
		reason: "neither a Pod that never led nor a user without a Pod may write",
		events: []auditv1.Event{holds("a_1", 0, 10), writes("standby", "c", 5, 11), writes("nobody", "", 10, 12)},
		terms:  []string{"a@10"}, strays: []string{"standby [a]", "nobody [a]"},
	},
	"Released": {
		reason: "between release and acquisition no Pod leads, and a user without a Pod never does",
		events: []auditv1.Event{holds("a_1", 0, 10), holds("", 10, 11), writes("w", "a", 15, 12),
			writes("nobody", "", 16, 13), holds("b_1", 20, 14)},
		terms: []string{"a@10", "@11", "b@14"}, strays: []string{"w []", "nobody []"},
	},
	"DeletionMeanwhile": {
		reason: "the leader changed while the deletion was under way",
		events: []auditv1.Event{holds("a_1", 0, 10), ask("delete", "a", 5, 30, "delete", "example.com", "things", ""),
			holds("b_1", 20, 12), holds("b_1", 40, 14)},
		terms: []string{"a@10", "b@12"}, undecided: []string{"delete [a b]"},
	},
	"UnchangedIsNoBound": {
		reason: "an old version in a later answer does not date the deletion before it",
		events: []auditv1.Event{holds("a_1", 0, 10), writes("w", "b", 5, 9), holds("b_1", 10, 12),
			writes("delete", "b", 20, 0), writes("same", "b", 25, 11), holds("b_1", 30, 14)},
		terms: []string{"a@10", "b@12"}, judged: 1,
	},
	"LeaseDeleted": {
		reason: "a term ends with its Lease; who makes it anew begins one",
		events: []auditv1.Event{
			holds("a_1", 0, 10), writes("w1", "a", 5, 11), unleases(10), writes("clear", "x", 20, 14),
			writes("between", "a", 25, 15),
			holds("b_1", 30, 16), writes("late", "a", 35, 17), writes("w2", "b", 40, 18),
		},
		terms: []string{"a@10", "@11-14", "b@16"}, judged: 2, strays: []string{"clear []", "between []", "late [b]"},
	},
	"BeforeTheLog": {
		reason: "the log does not say who led before it begins",
		events: []auditv1.Event{writes("w", "a", 0, 9), holds("a_1", 10, 10)},
		terms:  []string{"a@10"}, strays: []string{"w []"},
	},
}

func TestJudge(t *testing.T) {
	for name, tc := range judgements {
		t.Run(name, func(t *testing.T) {
			isLease := record.Resource("coordination.k8s.io", "leases")
			shuffled := slices.Clone(tc.events)
			slices.Reverse(shuffled)
			got, err := record.Judge(shuffled, record.Writes(tc.events, "op", record.Succeeded, record.Not(isLease)), "ns", "l")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.terms, termsOf(got)); diff != "" {
				t.Errorf("%s: terms (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.strays, straysOf(got.Strays)); diff != "" {
				t.Errorf("%s: strays (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.undecided, straysOf(got.Undecided)); diff != "" {
				t.Errorf("%s: undecided (-want +got):\n%s", tc.reason, diff)
			}
			if got.Judged != tc.judged {
				t.Errorf("%s: judged %d, want %d", tc.reason, got.Judged, tc.judged)
			}
		})
	}
}

// TestJudge_answersInTheOtherOrder is about a release whose answer took longer than that
// of the takeover which followed it.
func TestJudge_answersInTheOtherOrder(t *testing.T) {
	released := holds("", 10, 11)
	takeover := holds("b_1", 11, 12)
	released.StageTimestamp = metav1.NewMicroTime(takeover.StageTimestamp.Add(time.Millisecond))
	got, err := record.Judge([]auditv1.Event{holds("a_1", 0, 10), takeover, released}, nil, "ns", "l")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a@10", "@11", "b@12"}, termsOf(got)); diff != "" {
		t.Fatalf("terms (-want +got):\n%s", diff)
	}
	if !got.Terms[1].At.Equal(takeover.StageTimestamp.Time) {
		t.Errorf("the Lease was released at %s, want no later than the takeover at %s", got.Terms[1].At,
			takeover.StageTimestamp)
	}
}

func termsOf(l record.Leadership) []string {
	var all []string
	for _, term := range l.Terms {
		text := fmt.Sprintf("%s@%d", term.Holder, term.From)
		if term.To != term.From {
			text += fmt.Sprintf("-%d", term.To)
		}
		all = append(all, text)
	}
	return all
}

func straysOf(strays []record.Stray) []string {
	var all []string
	for _, s := range strays {
		all = append(all, fmt.Sprintf("%s %v", s.AuditID, s.Leaders))
	}
	return all
}

func TestJudgeNeedsTheLease(t *testing.T) {
	cases := map[string]struct{ answer, want string }{
		"NoAnswer": {"", "no answer to the update of the Lease"},
		"Garbage":  {`{"metadata":{"resourceVersion":"5"},"spec":7}`, "decoding the answer of audit event lease"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			events := []auditv1.Event{ask("lease", "a", 0, 2, "update", "coordination.k8s.io", "leases", tc.answer)}
			if _, err := record.Judge(events, nil, "ns", "l"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Judge() = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestStray_NamesWriterAndLeaders(t *testing.T) {
	late := writes("late", "a", 20, 11)
	l, err := record.Judge([]auditv1.Event{holds("b_1", 0, 10), late}, []auditv1.Event{late}, "ns", "l")
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Strays) != 1 {
		t.Fatalf("strays: %v, want one", l.Strays)
	}
	const want = `patch /late by Pod "a" at Jan  1 00:00:00.022000 under ["b"]`
	if got := l.Strays[0].String(); got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
}
