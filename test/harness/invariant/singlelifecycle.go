// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"leasehold.dev/test/harness/history"
)

// SingleLifecycle compares how often objects came and went, which an end state hides.
var SingleLifecycle = Invariant{
	Name:    "single-lifecycle",
	Bug:     "https://github.com/kubernetes-sigs/cluster-api/issues/13649",
	Promise: "each object is created and deleted as often as in clean runs, which create none again without a change by a user",
	needs:   []history.Source{history.Watch, history.Audit},
	judge:   judgeLifecycle,
}

// comings counts the creations and deletions of one object, or of objects of its name.
type comings struct {
	made, ended int
	// replaced means that the controller of a workload replaces such objects. How often follows from the template,
	// which end-state compares, and two changes of it in a row may be one.
	replaced   bool
	at         []string
	references []HistoryRef
}

// maxTimes bounds the creations and deletions that a violation tells.
const maxTimes = 4

// when tells when the objects came and went. The history has them all.
func (c comings) when() string {
	told := c.at[:min(maxTimes, len(c.at))]
	if more := len(c.at) - len(told); more > 0 {
		told = append(slices.Clone(told), fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(told, ", "), "never here")
}

func judgeLifecycle(b *judgement) {
	b.judgeRemade()
	clean := slices.DeleteFunc(slices.Clone(b.References), func(h *history.History) bool { return !h.Has(history.Watch) })
	if len(clean) == 0 {
		b.addDoubt("there is no clean run to compare with")
		return
	}
	b.judgeLost(clean)
	if rejected := b.rejectedOnlyHere(); len(rejected) > 0 {
		b.addDoubt("the counts are not comparable with clean runs: %s", rejected[0])
		return
	}
	if i := slices.IndexFunc(b.History.Checkpoints, func(m history.Checkpoint) bool { return m.Busy }); i >= 0 {
		b.addDoubt("the operator is not done at %q, so counts differ from run to run", b.History.Checkpoints[i].Name)
		return
	}
	counted := count(b.History, b.comparison)
	references := make([]map[string]comings, len(clean))
	keys := sets.KeySet(counted)
	for i, h := range clean {
		references[i] = count(h, b.comparison)
		keys = keys.Union(sets.KeySet(references[i]))
	}
	touched := b.touched()
	for _, key := range sets.List(keys) {
		if touched[key] {
			continue // another client created or deleted it
		}
		b.checked++
		got := counted[key]
		compare := func(what string, got int, of func(comings) int) {
			least, most := of(references[0][key]), of(references[0][key])
			for _, r := range references[1:] {
				least, most = min(least, of(r[key])), max(most, of(r[key]))
			}
			if got > most || got < least && !counted[key].replaced {
				b.addViolation("%s was %s %s, in clean runs %s (%s)", key, what, times(got, got), times(least, most),
					counted[key].when()).object(key).refer(counted[key].references...)
			}
		}
		compare("created", got.made, func(c comings) int { return c.made })
		compare("deleted", got.ended, func(c comings) int { return c.ended })
	}
}

// judgeRemade looks for objects that the operator has created, deleted and created again, although no
// user has changed anything meanwhile. It looks at clean runs, with which all others are compared. A
// hasty user may have changed something just before the first creation.
func (b *judgement) judgeRemade() {
	if len(b.History.Faults) > 0 ||
		slices.ContainsFunc(b.History.Checkpoints, func(m history.Checkpoint) bool { return m.Hasty }) {
		return
	}
	created, deleted := map[history.Key]bool{}, map[history.Key]history.Request{}
	normal := b.History.Normalizer()
	arrived := slices.SortedStableFunc(slices.Values(b.History.Requests),
		func(x, y history.Request) int { return x.Received.Compare(y.Received) })
	for _, r := range arrived {
		deletion, known := deleted[r.Key]
		switch {
		case !r.Done() || b.electing(r) || r.Name == "":
		case !b.ours(r):
			if isPerson(r.User) {
				clear(created)
				clear(deleted)
			}
		case r.Made && known:
			b.checked++
			b.addViolation("%s: it created the object before, and then %s, though no user had changed anything", r, deletion).
				request(r).object(normal.Replace(r.Key.String()))
		case r.Made:
			created[r.Key] = true
		case r.Verb == "delete" && created[r.Key]:
			deleted[r.Key] = r
		}
	}
}

// touched are the objects, by what the scenario calls them, that a fault has changed
// or deleted, and what was in them.
func (b *judgement) touched() map[string]bool {
	normal := b.History.Normalizer()
	found := map[string]bool{}
	for _, f := range b.History.Faults {
		for _, key := range f.Touched {
			found[normal.Replace(key.String())] = true
			for _, life := range b.index.All() {
				if key.Resource == (history.Resource{Resource: "namespaces"}) && life.Namespace == key.Name {
					found[normal.Replace(collapsed(life).String())] = true
				}
			}
		}
	}
	return found
}

// count counts by the scenario's names of objects. All generated names count as one. It omits
// objects created and deleted between hasty steps, because the operator may miss their reason.
func count(h *history.History, o comparison) map[string]comings {
	normal, concerns := h.Normalizer(), o.concerns(h)
	counts := map[string]comings{}
	for _, life := range h.Index().All() {
		if !concerns(life) || isPassing(h, life) {
			continue
		}
		key := normal.Replace(collapsed(life).String())
		c := counts[key]
		if len(life.Versions) > 0 {
			if o := life.Versions[0].Object; o != nil {
				owner := metav1.GetControllerOf(o)
				c.replaced = owner != nil && strings.HasPrefix(owner.APIVersion, appsv1.GroupName+"/")
			}
			c.made++
			c.at = append(c.at, fmt.Sprintf("created UID %s %s", life.UID, life.Versions[0].When()))
			c.references = append(c.references, revisionOf(life.Versions[0].RevisionRange)...)
		}
		if life.End != nil {
			c.ended++
			c.at = append(c.at, fmt.Sprintf("deleted UID %s %s", life.UID, life.End.When()))
			c.references = append(c.references, revisionOf(life.End.RevisionRange)...)
		}
		counts[key] = c
	}
	return counts
}

// isPassing reports whether an object existed at no checkpoint, and ended before one that followed
// hasty steps.
func isPassing(h *history.History, life *history.Lifetime) bool {
	for i, m := range h.Checkpoints {
		if life.End != nil && life.End.Before(history.At(m.To)) {
			return m.Hasty && (i == 0 || at(life, h.Checkpoints[i-1]) == nil)
		}
	}
	return false
}

func collapsed(life *history.Lifetime) history.Key {
	key := life.Key
	if last := life.Last(); last != nil && last.Object.GetGenerateName() != "" {
		key.Name = last.Object.GetGenerateName() + "*"
	}
	return key
}

func times(least, most int) string {
	if least == most {
		return fmt.Sprintf("%d times", least)
	}
	return fmt.Sprintf("%d to %d times", least, most)
}
