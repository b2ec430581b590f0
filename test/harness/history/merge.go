// SPDX-License-Identifier: Apache-2.0

package history

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Merge adds the records of other sources of the same run. A version in both is kept once. A
// deletion gets its revision from the source that recorded it.
func (h *History) Merge(o *History) {
	for _, s := range o.Recorded {
		if !h.Has(s) {
			h.Recorded = append(h.Recorded, s)
		}
	}
	if h.Began.IsZero() || !o.Began.IsZero() && o.Began.Before(h.Began) {
		h.Began = o.Began
	}
	if h.Aliases == nil && len(o.Aliases) > 0 {
		h.Aliases = map[string]string{}
	}
	maps.Copy(h.Aliases, o.Aliases)
	h.Requests = append(h.Requests, o.Requests...)
	h.Events = append(h.Events, o.Events...)
	h.Calls = append(h.Calls, o.Calls...)
	h.Faults = append(h.Faults, o.Faults...)
	h.Checkpoints = append(h.Checkpoints, o.Checkpoints...)
	h.Replicas = append(h.Replicas, o.Replicas...)
	h.Probes = append(h.Probes, o.Probes...)
	h.Followed = append(h.Followed, o.Followed...)
	h.Decisions = append(h.Decisions, o.Decisions...)
	h.Rejections = append(h.Rejections, o.Rejections...)
	h.Leftovers = append(h.Leftovers, o.Leftovers...)
	h.Releases = append(h.Releases, o.Releases...)
	h.Hostile = append(h.Hostile, o.Hostile...)
	h.mergeVersions(o.Versions)
	h.Sort()
}

func (h *History) mergeVersions(more []Version) {
	all := slices.Concat(h.Versions, more)
	ends := map[types.UID]RevisionRange{} // those that are known exactly
	for _, v := range all {
		if _, exact := v.Exact(); exact && v.Gone {
			ends[v.UID] = v.RevisionRange
		}
	}
	seen := map[Version]bool{}
	h.Versions = nil
	for _, v := range all {
		if end, known := ends[v.UID]; known && v.Gone {
			v.RevisionRange = end
		}
		id := Version{UID: v.UID, Gone: v.Gone}
		if !v.Gone { // an object ends once
			id.RevisionRange = v.RevisionRange
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		h.Versions = append(h.Versions, v)
	}
	for i, r := range h.Requests {
		_, exact := r.Exact()
		end, known := ends[r.UID]
		if r.Effect == Deleted && r.UID != "" && !exact && known {
			h.Requests[i].RevisionRange = end
		}
	}
}
