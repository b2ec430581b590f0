// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Excluding returns the history without the namespaces and everything in them: objects, requests
// about them, their events, and calls made for them.
func (h *History) Excluding(namespaces []string) *History {
	inside := func(k Key) bool {
		return slices.Contains(namespaces, k.Namespace) ||
			k.Resource == (Resource{Resource: "namespaces"}) && slices.Contains(namespaces, k.Name)
	}
	objects := map[types.UID]bool{}
	for _, v := range h.Versions {
		objects[v.UID] = objects[v.UID] || inside(v.Key)
	}
	// Objects without a recorded version are found in requests.
	for _, r := range h.Requests {
		objects[r.UID] = objects[r.UID] || r.UID != "" && inside(r.Key)
	}
	out := *h
	out.Versions = slices.DeleteFunc(slices.Clone(h.Versions), func(v Version) bool { return inside(v.Key) })
	out.Requests = slices.DeleteFunc(slices.Clone(h.Requests), func(r Request) bool { return inside(r.Key) })
	out.Events = slices.DeleteFunc(slices.Clone(h.Events), func(e Event) bool { return objects[e.Regarding] })
	out.Calls = slices.DeleteFunc(slices.Clone(h.Calls), func(c Call) bool { return objects[c.Owner] })
	return &out
}
