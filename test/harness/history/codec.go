// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// format is the version of the encoding. One that is newer is not guessed at.
const format = 1

type document struct {
	Format int `json:"format"`
	History
}

// Sort orders all lists: by revision where one is known, else by time. It is stable.
func (h *History) Sort() {
	slices.SortStableFunc(h.Requests, func(a, b Request) int {
		return cmp.Or(earliest(a.RevisionRange, b.RevisionRange), a.Received.Compare(b.Received))
	})
	// A deletion follows all writes to the object and precedes the next object of that name.
	slices.SortStableFunc(h.Versions, func(a, b Version) int { return latest(a.RevisionRange, b.RevisionRange) })
	slices.SortStableFunc(h.Events,
		func(a, b Event) int { return cmp.Or(earliest(a.RevisionRange, b.RevisionRange), a.At.Compare(b.At)) })
	slices.SortStableFunc(h.Calls, func(a, b Call) int { return a.Began.Compare(b.Began) })
	slices.SortStableFunc(h.Faults, func(a, b FaultRecord) int { return a.Began.Compare(b.Began) })
	slices.SortStableFunc(h.Checkpoints, func(a, b Checkpoint) int { return a.Began.Compare(b.Began) })
	slices.SortStableFunc(h.Replicas, func(a, b Process) int { return a.Started.Compare(b.Started) })
	slices.SortStableFunc(h.Probes, func(a, b Probe) int { return a.First.Compare(b.First) })
	slices.SortStableFunc(h.Followed, func(a, b Following) int { return a.Asked.Compare(b.Asked) })
	slices.SortStableFunc(h.Rejections, func(a, b Rejection) int { return a.At.Compare(b.At) })
	slices.SortStableFunc(h.Decisions, func(a, b Decision) int { return a.At.Compare(b.At) })
}

// earliest and latest are total orders that respect Before: by the earliest and by the latest
// possible revision.
func earliest(a, b RevisionRange) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(end(a), end(b)))
}
func latest(a, b RevisionRange) int {
	return cmp.Or(cmp.Compare(end(a), end(b)), cmp.Compare(a.From, b.From))
}

// end sorts an unknown end last.
func end(s RevisionRange) uint64 { return s.To - 1 }

// Encode writes the history as JSON, in order.
func (h *History) Encode(w io.Writer) error {
	h.Sort()
	if err := json.NewEncoder(w).Encode(document{Format: format, History: *h}); err != nil {
		return fmt.Errorf("encoding the history: %w", err)
	}
	return nil
}

// Decode reads the output of Encode. It rejects unknown fields: a history that is understood in
// part would be judged in part.
func Decode(r io.Reader) (*History, error) {
	var d document
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("decoding the history: %w", err)
	}
	if d.Format != format {
		return nil, fmt.Errorf("decoding the history: format %d is not %d", d.Format, format)
	}
	for _, v := range d.Versions {
		if v.Object == nil && !v.Gone {
			return nil, fmt.Errorf("decoding the history: %s at %s has no object", v.Key, v.RevisionRange)
		}
	}
	d.Sort()
	return &d.History, nil
}
