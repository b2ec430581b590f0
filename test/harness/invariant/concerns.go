package invariant

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/history"
)

// concerns tells the objects of a history that the operator has to do with: those of
// its kinds, and of the children's resources those that it has written or that are
// marked as made for an object of its kinds. Others make such objects too, as the
// API server's own certificate is put into each namespace. Where nobody recorded who
// wrote, an object without a mark may be the operator's.
func (o Operator) concerns(h *history.History) func(*history.Lifetime) bool {
	written, known := map[types.UID]bool{}, h.Has(history.Audit)
	for _, r := range h.Requests {
		if r.Done() && r.UID != "" && slices.Contains(o.Users, r.User) {
			written[r.UID] = true
		}
	}
	return func(life *history.Lifetime) bool {
		if slices.ContainsFunc(o.Kinds, func(k Kind) bool { return k.Resource == life.Resource }) {
			return true
		}
		if !slices.Contains(o.Resources(), life.Resource) {
			return false
		}
		return !known || written[life.UID] || slices.ContainsFunc(o.Kinds, func(k Kind) bool { return k.marks(life) })
	}
}

// owned tells the objects of a history that are somebody's: those that the operator
// has to do with, and those that a person has made. What the cluster makes of them by
// itself has other names in each run.
func (o Operator) owned(h *history.History) func(*history.Lifetime) bool {
	concerns, made := o.concerns(h), map[types.UID]bool{}
	for _, r := range h.Requests {
		if r.Made && r.Done() && r.UID != "" && isPerson(r.User) {
			made[r.UID] = true
		}
	}
	return func(life *history.Lifetime) bool { return concerns(life) || made[life.UID] }
}

// isPerson reports whether a user is neither part of the cluster nor a ServiceAccount.
func isPerson(user string) bool { return !strings.HasPrefix(user, "system:") }

// marks reports whether an object was ever marked as a child of the kind.
func (k Kind) marks(life *history.Lifetime) bool {
	return slices.ContainsFunc(k.Children, func(c Child) bool {
		return c.Resource == life.Resource &&
			slices.ContainsFunc(life.Versions, func(v history.Version) bool { return c.mark(v) != "" })
	})
}
