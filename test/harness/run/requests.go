// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// answered is a request of the operator with its answer. Its path has placeholders for names of the scenario.
type answered struct {
	history.Request
	method, path string
}

// answeredRequests returns the operator's requests to the run's own objects, and its lists, in the order in which they
// reached the proxies. A request without an answer is left out, because its effect is unknown.
func (ex *execution) answeredRequests(h *history.History) []answered {
	promises, normal, isOwn := ex.prover.subject.Contract, h.Normalizer(), ex.isOwn(h)
	known := map[string]history.Request{} // by the audit log's ID
	for _, r := range h.Requests {
		known[r.ID] = r
	}
	var asked []fault.ProxiedRequest
	for _, replica := range ex.prover.replicas {
		asked = append(asked, replica.proxy.Journal().Requests...)
	}
	slices.SortStableFunc(asked, func(a, b fault.ProxiedRequest) int { return a.Received.Compare(b.Received) })
	var all []answered
	for _, request := range asked {
		r, isKnown := known[request.AuditID]
		if !isKnown || r.Verb != "list" && !isOwn(r.Key.String()) ||
			r.Key == promises.Lease || slices.Contains(promises.AnyReplica, r.Resource) {
			continue
		}
		// A name at the end of a path stands there as it is; a slash does not matter.
		all = append(all, answered{r, request.Method, strings.TrimSuffix(normal.Replace(request.Path), "/")})
	}
	return all
}

// writes returns the operator's writes to the run's own objects.
func (ex *execution) writes(h *history.History) []call {
	var writes []call
	for _, r := range ex.answeredRequests(h) {
		if r.Write() {
			writes = append(writes, call{Method: r.method, Path: r.path, Changed: r.Done()})
		}
	}
	return writes
}

// countRequests counts the operator's requests before each checkpoint, without watches: the API server ends those.
func (ex *execution) countRequests(h *history.History) []invariant.RequestCount {
	var counts []invariant.RequestCount
	for _, r := range ex.answeredRequests(h) {
		step := h.CheckpointsBefore(r.Received)
		if r.Verb == "watch" || r.Effect == history.Dry || step == len(h.Checkpoints) {
			continue
		}
		c := invariant.RequestCount{Step: h.Checkpoints[step].Name, Method: r.method, Path: r.path, Count: 1,
			Resource: strings.TrimSuffix(r.Resource.String()+"/"+r.Subresource, "/")}
		switch {
		case r.Verb == "list":
			c.Method = "LIST"
		case r.Write() && !r.Done():
			c.Resource += " without effect"
		}
		same := func(o invariant.RequestCount) bool { o.Count = c.Count; return o == c }
		if i := slices.IndexFunc(counts, same); i >= 0 {
			counts[i].Count++
			continue
		}
		counts = append(counts, c)
	}
	return counts
}

// renamed replaces names in a path.
func renamed(path string, names map[string]string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = cmp.Or(names[part], part)
	}
	return strings.Join(parts, "/")
}

// isOwn returns a filter for the texts that name an object of this run: they contain a name that the run made up, or
// the name of an object that its users created, as a whole word, if the run made up neither its name nor its namespace.
func (ex *execution) isOwn(h *history.History) func(text string) bool {
	normal := h.Normalizer()
	var fixed []string
	for _, ref := range ex.created {
		if path := ref.Namespace + "/" + ref.Name; normal.Replace(path) == path {
			fixed = append(fixed, regexp.QuoteMeta(ref.Name))
		}
	}
	word := regexp.MustCompile(`(^|[^a-z0-9])(` + strings.Join(fixed, "|") + `)($|[^a-z0-9])`)
	return func(text string) bool {
		return normal.Replace(text) != text || len(fixed) > 0 && word.MatchString(text)
	}
}
