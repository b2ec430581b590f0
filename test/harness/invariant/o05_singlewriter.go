package invariant

import (
	"fmt"
	"slices"
	"strings"

	"leasehold.dev/test/harness/history"
)

// SingleWriter compares the version of each write with the Lease's.
var SingleWriter = Invariant{
	ID: "O5", Name: "single writer",
	Promise: "every write of the operator that was stored with a version was made by the replica that held the Lease at that version",
	judge:   judgeSingleWriter,
}

func judgeSingleWriter(b *bench) {
	if !b.needs(history.Audit) {
		return
	}
	terms := b.History.Terms(b.Operator.Lease)
	if len(terms) == 0 {
		b.doubt("no version of the Lease %s/%s was recorded", b.Operator.Lease.Namespace, b.Operator.Lease.Name)
		return
	}
	for _, r := range b.History.Requests {
		// What was refused or changed nothing did no harm: that is what a fence is for.
		if !b.ours(r) || b.electing(r) || !r.Done() && r.Effect != history.Unknown {
			continue
		}
		b.checked++
		leaders := history.HeldDuring(terms, r.Span)
		_, exact := r.Exact()
		switch {
		case r.Replica == "":
			b.doubt("%s: its token names no replica", r)
		case len(leaders) == 0:
			b.doubt("%s: who held the Lease so early was not recorded", r)
		case slices.Equal(leaders, []string{r.Replica}):
		case r.Effect == history.Unknown:
			b.doubt("%s: it may have been stored, while the Lease was held by %s", r, names(leaders))
		case slices.Contains(leaders, r.Replica):
			b.doubt("%s: the Lease changed hands about then, between %s", r, names(leaders))
		case !exact && r.Effect == history.Stored:
			b.doubt("%s: whether it changed anything was not recorded, and the Lease was held by %s", r, names(leaders))
		default:
			b.broken("%s: the Lease was held by %s then", r, names(leaders))
		}
	}
}

func names(leaders []string) string {
	quoted := make([]string, len(leaders))
	for i, name := range leaders {
		quoted[i] = fmt.Sprintf("replica %s", name)
		if name == "" {
			quoted[i] = "nobody"
		}
	}
	return strings.Join(quoted, " or ")
}
