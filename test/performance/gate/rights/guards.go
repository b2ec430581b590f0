package rights

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/performance/gate/row"
)

// guarded is an object that guards something, or that is to be guarded itself.
type guarded struct {
	// guards are what may not be taken away, and holes what may not come: both as
	// sentences that name it for ever.
	guards, holes map[string]bool
	// harmless is whether nothing is left unguarded when the object goes.
	harmless bool
}

func newGuarded() guarded { return guarded{guards: map[string]bool{}, holes: map[string]bool{}} }

// guardsOf finds all objects of which there is something to be said.
func guardsOf(objs []*unstructured.Unstructured) (map[string]guarded, error) {
	all := map[string]guarded{}
	for _, obj := range objs {
		var err error
		switch obj.GetKind() {
		case "Namespace":
			all[named(obj)] = ofNamespace(obj)
		case "Deployment", "DaemonSet", "StatefulSet", "Job":
			all[named(obj)], err = ofWorkload(obj)
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			err = addWebhooks(all, obj)
		case "ValidatingAdmissionPolicy":
			all[named(obj)], err = ofPolicy(obj)
		case "ValidatingAdmissionPolicyBinding":
			all[named(obj)], err = ofBinding(obj)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// compareGuards makes a row of each guard and hole that came or went, and one of
// each object with none of them.
func compareGuards(base, head map[string]guarded) []row.Row {
	var rows []row.Row
	for _, name := range slices.Sorted(maps.Keys(base)) {
		old := base[name]
		now, still := head[name]
		switch {
		case still:
			rows = append(rows, compareGuarded(name, old, now)...)
		case old.harmless:
			rows = append(rows, row.Row{ID: prefix + name, Base: "there", Verdict: row.Gone, Reason: "there is nothing left to guard"})
		default:
			rows = append(rows, row.Row{ID: prefix + name, Base: "there", Verdict: row.Worse,
				Reason: "what it guarded is not guarded any more: put it back, or say in the change what guards it instead"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(head)) {
		if _, known := base[name]; known {
			continue
		}
		r := row.Row{ID: prefix + name, Head: "there", Verdict: row.New, Reason: "there was none before"}
		if holes := slices.Sorted(maps.Keys(head[name].holes)); len(holes) > 0 {
			r.Reason += fmt.Sprintf("; note %v", holes)
		}
		rows = append(rows, r)
	}
	return rows
}

func compareGuarded(name string, base, head guarded) []row.Row {
	rows := slices.Concat(
		differences(name, base.guards, head.guards, row.Worse, row.Better),
		differences(name, base.holes, head.holes, row.Better, row.Worse),
	)
	if len(rows) == 0 {
		same := fmt.Sprintf("%d guards", len(base.guards))
		return []row.Row{{ID: prefix + name, Base: same, Head: same, Verdict: row.Same}}
	}
	return rows
}

// differences makes rows of what went and what came.
func differences(name string, base, head map[string]bool, went, came row.Verdict) []row.Row {
	reasons := map[row.Verdict]string{
		row.Worse:  "Pods or admission are guarded less: undo it, or say in the change what guards them instead",
		row.Better: "Pods or admission are guarded more",
	}
	var rows []row.Row
	for _, what := range slices.Sorted(maps.Keys(base)) {
		if !head[what] {
			rows = append(rows, row.Row{ID: prefix + name + ": " + what, Base: "yes", Head: "no", Verdict: went, Reason: reasons[went]})
		}
	}
	for _, what := range slices.Sorted(maps.Keys(head)) {
		if !base[what] {
			rows = append(rows, row.Row{ID: prefix + name + ": " + what, Base: "no", Head: "yes", Verdict: came, Reason: reasons[came]})
		}
	}
	return rows
}
