// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
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
	for name, alias := range o.Aliases {
		if h.Aliases == nil {
			h.Aliases = map[string]string{}
		}
		h.Aliases[name] = alias
	}
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
	h.Releases = append(h.Releases, o.Releases...)
	h.Hostile = append(h.Hostile, o.Hostile...)
	h.mergeVersions(o.Versions)
	h.Sort()
}

func (h *History) mergeVersions(more []Version) {
	all := slices.Concat(h.Versions, more)
	ends := map[string]uint64{} // by UID, those that are known exactly
	for _, v := range all {
		if version, ok := v.Exact(); ok && v.Gone {
			ends[string(v.UID)] = version
		}
	}
	type once struct {
		uid  string
		gone bool
		span RevisionRange
	}
	seen := map[once]bool{}
	h.Versions = nil
	for _, v := range all {
		if version, known := ends[string(v.UID)]; known && v.Gone {
			v.RevisionRange = At(version)
		}
		id := once{string(v.UID), v.Gone, v.RevisionRange}
		if v.Gone {
			id.span = RevisionRange{} // an object ends once
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		h.Versions = append(h.Versions, v)
	}
	for i, r := range h.Requests {
		_, exact := r.Exact()
		version, known := ends[string(r.UID)]
		if r.Effect == Deleted && r.UID != "" && !exact && known {
			h.Requests[i].RevisionRange = At(version)
		}
	}
}
