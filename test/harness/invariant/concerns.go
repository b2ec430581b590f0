// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// comparison is a contract with the scenario's names of the watched objects that count in one of the compared runs,
// and so in all: what the operator wrote in one run alone is there in the others, too.
type comparison struct {
	Contract
	counted map[string]bool
}

// comparison finds these names.
func (c Case) comparison() comparison {
	o := comparison{c.Contract, map[string]bool{}}
	if len(o.Watched) == 0 {
		return o
	}
	for _, h := range append(slices.Clone(c.References), c.History) {
		concerns, normal := o.concerns(h), h.Normalizer()
		for _, life := range h.Index().All() {
			if slices.Contains(o.Watched, life.Resource) && concerns(life) {
				o.counted[normal.Replace(collapsed(life).String())] = true
			}
		}
	}
	return o
}

// concerns returns a filter for the objects of a history that end-state and single-lifecycle judge:
//   - objects of the operator's kinds;
//   - objects of the children's resources that the operator wrote, or that are marked as made for
//     an object of its kinds;
//   - objects of watched resources that the operator wrote or that a user of the scenario created, in
//     this history or in one that is compared with it.
//
// Others create such objects, too: the API server puts its certificate into each namespace.
func (o comparison) concerns(h *history.History) func(*history.Lifetime) bool {
	written := objectsOf(h, func(r history.Request) bool { return slices.Contains(o.Users, r.User) })
	created, normal := createdByUsers(h), h.Normalizer()
	return func(life *history.Lifetime) bool {
		if slices.ContainsFunc(o.Kinds, func(k Kind) bool { return k.Resource == life.Resource }) {
			return true
		}
		if slices.Contains(o.Watched, life.Resource) &&
			(written[life.UID] || created[life.UID] || o.counted[normal.Replace(collapsed(life).String())]) {
			return true
		}
		return slices.Contains(o.Resources(), life.Resource) &&
			(written[life.UID] || slices.ContainsFunc(o.Kinds, func(k Kind) bool { return k.marks(life) }))
	}
}

// objectsOf returns the UIDs of the objects that the matching requests changed. The audit log has
// no UID of an object whose bodies it leaves out, such as a Secret: there the name and the time of
// the request identify the object.
func objectsOf(h *history.History, matches func(history.Request) bool) map[types.UID]bool {
	found := map[types.UID]bool{}
	var lives []*history.Lifetime
	for _, r := range h.Requests {
		switch {
		case !r.Done() || !matches(r):
		case r.UID != "":
			found[r.UID] = true
		default:
			if lives == nil {
				lives = h.Index().All()
			}
			for _, life := range lives {
				if mayChange(r, life) {
					found[life.UID] = true
				}
			}
		}
	}
	return found
}

// mayChange reports whether a request that names no UID may have changed the object. A create
// request without a name may have created any object of a generated name.
func mayChange(r history.Request, life *history.Lifetime) bool {
	if r.Resource != life.Resource || r.Namespace != life.Namespace || len(life.Versions) == 0 {
		return false
	}
	first := life.Versions[0]
	created := !first.Before(r.RevisionRange) && !r.Before(first.RevisionRange)
	if r.Name == "" {
		return r.Verb == "create" && created && first.Object.GetGenerateName() != ""
	}
	return r.Name == life.Name && (created || !r.Made) && !r.Before(first.RevisionRange) &&
		(life.End == nil || !life.End.Before(r.RevisionRange))
}

// createdByUsers returns the UIDs of the objects that users of the scenario created. The Pods of replicas are the
// harness's.
func createdByUsers(h *history.History) map[types.UID]bool {
	return objectsOf(h, func(r history.Request) bool {
		return isPerson(r.User) && r.Made && !slices.ContainsFunc(h.Replicas, func(p history.Process) bool {
			return r.Resource == (history.Resource{Resource: "pods"}) && p.Name == r.Name
		})
	})
}

// owned returns a filter for the objects that the operator has to do with or that a user of the
// scenario created. What the cluster makes of them by itself has other names in each run.
func (o comparison) owned(h *history.History) func(*history.Lifetime) bool {
	concerns, created := o.concerns(h), createdByUsers(h)
	return func(life *history.Lifetime) bool { return concerns(life) || created[life.UID] }
}

// isPerson reports whether a user is neither part of the cluster nor a ServiceAccount.
func isPerson(user string) bool { return !strings.HasPrefix(user, "system:") }

// marks reports whether an object ever had the mark of a child of the kind.
func (k Kind) marks(life *history.Lifetime) bool {
	return slices.ContainsFunc(k.Children, func(c Child) bool {
		return c.Resource == life.Resource &&
			slices.ContainsFunc(life.Versions, func(v history.Version) bool { return c.mark(v) != "" })
	})
}
