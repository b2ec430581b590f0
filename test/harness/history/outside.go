package history

import "slices"

// Outside returns the history without what is in the namespaces, or is one of them:
// objects, requests about them, events, and calls made for them. What is not about
// objects stays.
func (h *History) Outside(namespaces []string) *History {
	inside := func(k Key) bool {
		return slices.Contains(namespaces, k.Namespace) ||
			k.Resource == (Resource{Resource: "namespaces"}) && slices.Contains(namespaces, k.Name)
	}
	out, objects := *h, h.inside(inside)
	out.Versions = slices.DeleteFunc(slices.Clone(h.Versions), func(v Version) bool { return inside(v.Key) })
	out.Requests = slices.DeleteFunc(slices.Clone(h.Requests), func(r Request) bool { return inside(r.Key) })
	out.Events = slices.DeleteFunc(slices.Clone(h.Events), func(e Event) bool { return objects[string(e.Regarding)] })
	out.Calls = slices.DeleteFunc(slices.Clone(h.Calls), func(c Call) bool { return objects[string(c.Owner)] })
	return &out
}

// inside are the UIDs of what is wanted. An object that no version is known of is
// known by requests.
func (h *History) inside(wanted func(Key) bool) map[string]bool {
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
