package writes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"leasehold.dev/test/performance/counts"
)

// cost is how many writes a phase of the story needs.
type cost struct {
	phase string
	// ours is what is necessary by the decisions in docs/decisions, and why.
	ours int
	why  string
	// least is what no operator can do without: one write for each child that is to
	// be different, and one for the status; one more to let go of what is outside.
	least int
}

// costs are those of the story in counts: of a Tenant with three namespaces, of
// StorageBuckets, and of a MarkdownView.
var costs = []cost{
	{"tenant.create", 11, "3 namespaces, 3 role bindings, cluster role and binding of the reader; the finalizer; 2 statuses: the names before they are created (D4), and how it went", 9},
	{"tenant.update.admins", 5, "3 role bindings, the reader's cluster role binding; the status", 5},
	{"tenant.update.add", 4, "namespace, role binding; 2 statuses (D4)", 3},
	{"tenant.update.order", 1, "the status, for the generation that was seen", 1},
	{"tenant.update.label", 0, "nothing", 0},
	{"tenant.update.drop", 3, "the namespace is deleted; 2 statuses: it goes, it is gone", 2},
	{"tenant.drift.binding", 1, "the role binding", 1},
	{"tenant.drift.deleted", 1, "the role binding", 1},
	{"tenant.drift.marks", 1, "the namespace", 1},
	{"tenant.delete", 9, "3 namespaces; 3 statuses, one for each state that a user can see; the reader's cluster role and binding, so that no right outlives the Tenant; the finalizer", 1},
	{"tenant.create.retain", 11, "as tenant.create", 9},
	{"tenant.delete.retain", 9, "3 role bindings, the marks of 3 namespaces, the reader's cluster role and binding; the finalizer", 9},
	{"storagebucket.create.observe", 1, "the status", 1},
	{"storagebucket.create.manage", 3, "the finalizer; 2 statuses: the intent before the bucket is created (D17), and how it went", 2},
	{"storagebucket.create.retain", 3, "as storagebucket.create.manage", 2},
	{"storagebucket.update", 1, "the status", 1},
	{"storagebucket.update.label", 0, "nothing", 0},
	{"storagebucket.drift", 1, "the status, for the generation that was seen", 1},
	{"storagebucket.delete.retain", 1, "the finalizer", 1},
	{"storagebucket.delete", 1, "the finalizer", 1},
	{"storagebucket.update.period", 1, "the status", 1},
	{"storagebucket.probe", 0, "nothing: what was found is what the status says", 0},
	{"storagebucket.delete.observe", 0, "nothing: there is no finalizer (D18)", 0},
	{"markdownview.create", 4, "config map, deployment, service; the status", 4},
	{"markdownview.serve", 1, "the status, when the viewers have come up", 1},
	{"markdownview.update.content", 3, "config map, deployment; the status", 3},
	{"markdownview.serve.content", 1, "the status", 1},
	{"markdownview.update.replicas", 2, "deployment; the status", 2},
	{"markdownview.serve.replicas", 1, "the status", 1},
	{"markdownview.update.label", 0, "nothing", 0},
	{"markdownview.drift.content", 1, "the config map", 1},
	{"markdownview.drift.deleted", 1, "the service", 1},
	{"markdownview.delete", 0, "nothing: the garbage collector follows the owner references (D26)", 0},
}

// totals are what a phase has asked of the API server.
type totals struct{ writes, reads, passes, conflicts int }

func totalsOf(p counts.Phase) totals {
	var t totals
	for key, n := range p.Counts {
		switch kind, _, _ := strings.Cut(key, " "); kind {
		case "write", "refused":
			t.writes += n
		case "read":
			t.reads += n
		}
	}
	for key, n := range p.Timed {
		switch kind, _, _ := strings.Cut(key, " "); kind {
		case "conflict":
			// Nobody should have sent it: it costs what a write costs.
			t.writes, t.conflicts = t.writes+n, t.conflicts+n
		case "reconcile":
			t.passes += n
		}
	}
	return t
}

// kindOf is the kind that a phase is about.
func kindOf(phase string) string {
	kind, _, _ := strings.Cut(phase, ".")
	return kind
}

// table writes phase by phase what was written, in Markdown.
func table(phases []counts.Phase) string {
	byPhase := map[string]cost{}
	for _, c := range costs {
		byPhase[c.phase] = c
	}
	var text strings.Builder
	text.WriteString("| phase | writes | necessary | passes / changes | what was asked for |\n|---|---|---|---|---|\n")
	for _, p := range phases {
		total, necessary := totalsOf(p), "0"
		if c, known := byPhase[p.Name]; known {
			necessary = fmt.Sprintf("%d: %s", c.ours, c.why)
		}
		var asked []string
		for _, what := range []map[string]int{p.Counts, p.Timed} {
			for _, key := range slices.Sorted(maps.Keys(what)) {
				if !strings.HasPrefix(key, "reconcile") {
					asked = append(asked, fmt.Sprintf("%d %s", what[key], key))
				}
			}
		}
		fmt.Fprintf(&text, "| %s | %d | %s | %d / %d | %s |\n", p.Name, total.writes, necessary, total.passes, p.Changes, strings.Join(asked, ", "))
	}
	return text.String()
}
