// SPDX-License-Identifier: Apache-2.0

package history

import "slices"

// Answered reports whether the users of an operator did something for the run: whether they wrote an object that was
// created in it, changed one outside their own namespace, or called the external system. Leases and events do not
// count, because an operator also writes them while it waits for what a scenario lacks.
func (h *History) Answered(users []string, own string) bool {
	created := map[Key]bool{}
	for _, r := range h.Requests {
		created[r.Key] = created[r.Key] || r.Made
	}
	return len(h.Calls) > 0 || slices.ContainsFunc(h.Requests, func(r Request) bool {
		return r.Write() && slices.Contains(users, r.User) && r.Resource != Leases && r.Resource.Resource != "events" &&
			(created[r.Key] || r.Done() && r.Namespace != own)
	})
}
