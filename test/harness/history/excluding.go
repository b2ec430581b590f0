// SPDX-License-Identifier: Apache-2.0

package history

import "slices"

// Excluding returns the history without the namespaces and everything in them: objects, requests
// about them, their events, and calls made for them.
func (h *History) Excluding(namespaces []string) *History {
	inside := func(k Key) bool {
		return slices.Contains(namespaces, k.Namespace) ||
			k.Resource == (Resource{Resource: "namespaces"}) && slices.Contains(namespaces, k.Name)
	}
	out, objects := *h, h.uidsOf(inside)
	out.Versions = slices.DeleteFunc(slices.Clone(h.Versions), func(v Version) bool { return inside(v.Key) })
	out.Requests = slices.DeleteFunc(slices.Clone(h.Requests), func(r Request) bool { return inside(r.Key) })
	out.Events = slices.DeleteFunc(slices.Clone(h.Events), func(e Event) bool { return objects[string(e.Regarding)] })
	out.Calls = slices.DeleteFunc(slices.Clone(h.Calls), func(c Call) bool { return objects[string(c.Owner)] })
	return &out
}

// uidsOf returns the UIDs of the objects whose keys are wanted. Objects without a recorded version
// are found in requests.
func (h *History) uidsOf(wanted func(Key) bool) map[string]bool {
	found := map[string]bool{}
	for _, v := range h.Versions {
		if wanted(v.Key) {
			found[string(v.UID)] = true
		}
	}
	for _, r := range h.Requests {
		if r.UID != "" && wanted(r.Key) {
			found[string(r.UID)] = true
		}
	}
	return found
}
