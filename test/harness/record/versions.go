// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"slices"
	"sort"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/history"
)

// versions finds the store's version at a time, from the answers to writes.
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
	// A request that changed nothing proves nothing about the time it was received.
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

// after is a version that the store had not reached by then; 0 if none is known.
func (v *versions) after(t time.Time) uint64 {
	i := sort.Search(len(v.received), func(i int) bool { return v.received[i].at.After(t) })
	if i == len(v.received) {
		return 0
	}
	return v.received[i].version
}

// within returns the revision range of a request that stored no version, from the responses before
// and after it.
func (v *versions) within(e auditv1.Event) history.RevisionRange {
	return history.RevisionRange{From: v.before(e.RequestReceivedTimestamp.Time), To: v.after(e.StageTimestamp.Time)}
}

// stored returns the effect and the revisions of a successful write. Three responses are special:
//   - one with a version older than its request is of a write without effect, such as an apply of
//     the stored content;
//   - unless it removed the last finalizer of a terminating object: then the object is deleted, and
//     the response still has its previous version;
//   - one without a version, a Status, is of a deletion.
func (v *versions) stored(e auditv1.Event) (history.RevisionRange, history.Effect) {
	version, ok := versionOf(e)
	switch {
	case e.Verb == "deletecollection", !ok && e.Verb == "delete":
		return v.within(e), history.Deleted
	case !ok:
		return v.within(e), history.Stored
	case version > v.before(e.RequestReceivedTimestamp.Time):
		if e.Verb == "delete" && released(e) {
			return history.At(version), history.Deleted
		}
		return history.At(version), history.Stored
	case released(e):
		return v.within(e), history.Deleted
	}
	return v.within(e), history.Unchanged
}

// answer has what is read of an answer, whatever its kind.
type answer struct {
	Kind     string `json:"kind"`
	Metadata struct {
		UID                types.UID `json:"uid"`
		ResourceVersion    string    `json:"resourceVersion"`
		DeletionTimestamp  string    `json:"deletionTimestamp"`
		GracePeriodSeconds int64     `json:"deletionGracePeriodSeconds"`
		Finalizers         []string  `json:"finalizers"`
	} `json:"metadata"`
	Spec struct {
		Finalizers []string `json:"finalizers"` // a namespace has some of its own
	} `json:"spec"`
	Details struct {
		UID types.UID `json:"uid"`
	} `json:"details"`
}

// answerOf reads the answer. A text has none of the fields, and one of another type is left out.
func answerOf(e auditv1.Event) (a answer) {
	if e.ResponseObject != nil {
		_ = json.Unmarshal(e.ResponseObject.Raw, &a)
	}
	return a
}

// versionOf is the resourceVersion in the answer. A Status has none.
func versionOf(e auditv1.Event) (uint64, bool) {
	version, err := strconv.ParseUint(answerOf(e).Metadata.ResourceVersion, 10, 64)
	return version, err == nil
}

// released reports whether the object in the response can be deleted: it is terminating, without
// finalizers and without a grace period.
func released(e auditv1.Event) bool {
	a := answerOf(e)
	if e.ObjectRef.Resource == "namespaces" && a.Kind == partial {
		return false // its own finalizers are not in there
	}
	return a.Metadata.DeletionTimestamp != "" && a.Metadata.GracePeriodSeconds == 0 &&
		len(a.Metadata.Finalizers) == 0 && len(a.Spec.Finalizers) == 0
}
