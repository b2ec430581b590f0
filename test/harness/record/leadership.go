package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// podNameKey is where the API server says from which Pod a token comes.
const podNameKey = "authentication.kubernetes.io/pod-name"

// Leadership says which Pod led at which version of the store, and who wrote
// what under it.
type Leadership struct {
	// Terms are in the order in which they began.
	Terms []Term
	// Judged is how many writes were found to come from the leader of their time.
	Judged int
	// Strays came from a Pod that did not lead when they were stored.
	Strays []Stray
	// Undecided are writes whose answers have no version (a deletion's Status, or
	// a log without answers) and that took place about when the leader changed.
	// They may be either, and are few: what came before and after was looked at.
	Undecided []Stray
}

// Term is a time of leadership. It lasts until the next one begins.
type Term struct {
	// Pod is the leader; "" is nobody: the Lease was released or deleted.
	Pod string
	// From and To are the version with which it began. The answer to the deletion
	// of a Lease has none: it was then From at the earliest, and before To.
	From, To uint64
	// At is when the API server had answered.
	At time.Time
}

// Stray is a write by a Pod that is not known to have led.
type Stray struct {
	auditv1.Event
	// Pod sent it, Leaders held the Lease then; "" is nobody. Leaders is empty if
	// the log does not go back far enough to say.
	Pod     string
	Leaders []string
}

// String says who wrote what, and who led.
func (s Stray) String() string {
	return fmt.Sprintf("%s %s by Pod %q at %s under %q", s.Verb, s.RequestURI, s.Pod, s.StageTimestamp.UTC().Format(time.StampMicro), s.Leaders)
}

// Judge finds which of the writes, each of which has succeeded, did not come from
// the Pod that held the Lease at the version with which they were stored. The
// holder's identity is the Pod's name up to the first "_". The events are all of
// the log, as everybody's answers tell the version at a time; they may be in any
// order. It needs the answers of writes to the Lease, versions that grow over all
// resources (one etcd) and one API server's clock.
//
// An answer with a version that is older than its request is of a write that
// changed nothing, such as an apply of what is there. It is not judged.
func Judge(events, writes []auditv1.Event, namespace, lease string) (Leadership, error) {
	clock := newVersions(events)
	var l Leadership
	var err error
	if l.Terms, err = terms(clock, Select(events, isWrite, Succeeded,
		Resource("coordination.k8s.io", "leases"), InNamespace(namespace), Named(lease))); err != nil {
		return l, err
	}
	for _, w := range writes {
		from, to, changed := clock.stored(w)
		if !changed {
			continue
		}
		stray := Stray{Event: w, Pod: podOf(w), Leaders: leaders(l.Terms, from, to)}
		switch {
		case stray.Pod == "" || !slices.Contains(stray.Leaders, stray.Pod):
			l.Strays = append(l.Strays, stray)
		case len(stray.Leaders) > 1:
			l.Undecided = append(l.Undecided, stray)
		default:
			l.Judged++
		}
	}
	return l, nil
}

// podOf is the Pod whose token the request came with; "" if it was none.
func podOf(e auditv1.Event) string {
	if names := e.User.Extra[podNameKey]; len(names) == 1 {
		return names[0]
	}
	return ""
}

// terms reads the Lease's history. A renewal continues a term.
func terms(clock *versions, changes []auditv1.Event) ([]Term, error) {
	var all []Term
	for _, e := range changes {
		from, to, changed := clock.stored(e)
		if !changed {
			continue
		}
		term := Term{From: from, To: to, At: e.StageTimestamp.Time}
		if e.Verb != "delete" {
			term.To = from
			if _, ok := versionOf(e); !ok {
				return nil, fmt.Errorf("the log has no answer to the %s of the Lease at %s", e.Verb, e.StageTimestamp)
			}
			var lease coordinationv1.Lease
			if err := json.Unmarshal(e.ResponseObject.Raw, &lease); err != nil {
				return nil, fmt.Errorf("decoding the Lease of audit event %s: %w", e.AuditID, err)
			}
			if lease.Spec.HolderIdentity != nil {
				term.Pod, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
			}
		}
		all = append(all, term)
	}
	slices.SortFunc(all, func(a, b Term) int {
		// A deletion comes before the version that ends its time.
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
	})
	return slices.CompactFunc(all, func(a, b Term) bool { return a.Pod == b.Pod }), nil
}

// leaders are those who may have held the Lease at a version from one to below
// the other. A deletion ends a term somewhere between its own two.
func leaders(terms []Term, from, to uint64) []string {
	var found []string
	for i, t := range terms {
		end := uint64(math.MaxUint64)
		if i+1 < len(terms) {
			end = terms[i+1].To
		}
		if t.From < to && from < end && !slices.Contains(found, t.Pod) {
			found = append(found, t.Pod)
		}
	}
	return found
}

// versions tells the store's version at a time, from the answers to writes.
type versions struct {
	done     []stamp // by when the API server had answered; highest version so far
	received []stamp // by when it received the request; lowest version from here on
}

type stamp struct {
	at      time.Time
	version uint64
}

func newVersions(events []auditv1.Event) *versions {
	writes := Select(events, isWrite, Succeeded)
	v := &versions{}
	for _, e := range writes {
		if version, ok := versionOf(e); ok {
			v.done = append(v.done, stamp{e.StageTimestamp.Time, version})
		}
	}
	byTime := func(a, b stamp) int { return a.at.Compare(b.at) }
	slices.SortStableFunc(v.done, byTime)
	for i := 1; i < len(v.done); i++ {
		v.done[i].version = max(v.done[i].version, v.done[i-1].version)
	}
	// What changed nothing says nothing about the time it was asked for.
	for _, e := range writes {
		if version, ok := versionOf(e); ok && version > v.before(e.RequestReceivedTimestamp.Time) {
			v.received = append(v.received, stamp{e.RequestReceivedTimestamp.Time, version})
		}
	}
	slices.SortStableFunc(v.received, byTime)
	for i := len(v.received) - 2; i >= 0; i-- {
		v.received[i].version = min(v.received[i].version, v.received[i+1].version)
	}
	return v
}

// before is a version that the store had reached by then; 0 if none is known.
func (v *versions) before(t time.Time) uint64 {
	i, _ := slices.BinarySearchFunc(v.done, t, func(s stamp, t time.Time) int { return s.at.Compare(t) })
	if i == 0 {
		return 0
	}
	return v.done[i-1].version
}

// after is a version that the store had not reached by then.
func (v *versions) after(t time.Time) uint64 {
	i, _ := slices.BinarySearchFunc(v.received, t, func(s stamp, t time.Time) int {
		if s.at.After(t) {
			return 1
		}
		return -1
	})
	if i == len(v.received) {
		return math.MaxUint64
	}
	return v.received[i].version
}

// stored bounds the version with which a write was stored: from is the lowest that
// it can be, and to is above it. Where the answer has none, the bounds are what the
// answers before and after it say. It has not changed anything if its answer is of
// an older version.
func (v *versions) stored(e auditv1.Event) (from, to uint64, changed bool) {
	before := v.before(e.RequestReceivedTimestamp.Time)
	if version, ok := versionOf(e); ok {
		return version, version + 1, version > before
	}
	return before + 1, v.after(e.StageTimestamp.Time), true
}

// versionOf is the resourceVersion in the answer. A Status has none.
func versionOf(e auditv1.Event) (uint64, bool) {
	if e.ResponseObject == nil {
		return 0, false
	}
	var object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(e.ResponseObject.Raw, &object); err != nil {
		return 0, false // an answer that is no object, such as text
	}
	version, err := strconv.ParseUint(object.Metadata.ResourceVersion, 10, 64)
	return version, err == nil
}
