// Package rights is the check of the gate that a change gives nobody more rights,
// and takes away nothing that guards Pods or admission, without saying so. It
// judges what config/ renders to, as a cluster would get it.
package rights

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/stage"
)

// prefix is how the ID of every row begins.
const prefix = "rights/"

// overlays are the folders that users install.
var overlays = []string{"config/default", "config/certmanager"}

// Check compares both overlays of both checkouts. It needs kubectl, and no cluster.
func Check(ctx context.Context, p row.Pair) ([]row.Row, error) {
	found := map[string][]row.Row{}
	for _, overlay := range overlays {
		base, err := render(ctx, p.Base, overlay)
		if err != nil {
			return nil, err
		}
		head, err := render(ctx, p.Head, overlay)
		if err != nil {
			return nil, err
		}
		rows, err := Compare(base, head)
		if err != nil {
			return nil, fmt.Errorf("comparing %s: %w", overlay, err)
		}
		p.Bench.Say("rights: %s has %d objects and had %d", overlay, len(head), len(base))
		found[overlay] = rows
	}
	return merge(found), nil
}

func render(ctx context.Context, c stage.Checkout, overlay string) ([]*unstructured.Unstructured, error) {
	return env.Render(ctx, "", filepath.Join(c.Dir, filepath.FromSlash(overlay)))
}

// Compare compares all objects that are installed.
func Compare(base, head []*unstructured.Unstructured) ([]row.Row, error) {
	var grants [2]map[string]holder
	var guards [2]map[string]guarded
	for i, objs := range [][]*unstructured.Unstructured{base, head} {
		var err error
		if grants[i], err = holders(objs); err != nil {
			return nil, err
		}
		if guards[i], err = guardsOf(objs); err != nil {
			return nil, err
		}
	}
	return slices.Concat(compareHolders(grants[0], grants[1]), compareGuards(guards[0], guards[1])), nil
}

// merge makes one row of those of an ID in several overlays, the worst of them. It
// says where that is if it is not everywhere.
func merge(found map[string][]row.Row) []row.Row {
	var rows []row.Row
	places := map[string][]string{}
	for _, overlay := range overlays {
		for _, r := range found[overlay] {
			i := slices.IndexFunc(rows, func(other row.Row) bool { return other.ID == r.ID })
			switch {
			case i < 0:
				rows = append(rows, r)
				places[r.ID] = []string{overlay}
			case rows[i].Verdict == r.Verdict:
				places[r.ID] = append(places[r.ID], overlay)
			case weight(r.Verdict) > weight(rows[i].Verdict):
				rows[i] = r
				places[r.ID] = []string{overlay}
			}
		}
	}
	for i, r := range rows {
		if at := places[r.ID]; r.Reason != "" && len(at) < len(overlays) {
			rows[i].Reason = fmt.Sprintf("in %s: %s", strings.Join(at, ", "), r.Reason)
		}
	}
	return rows
}

// weight orders verdicts by how much there is to be said about them.
func weight(v row.Verdict) int {
	return slices.Index([]row.Verdict{row.Same, row.Gone, row.New, row.Better, row.Worse}, v)
}

// named is how an object is called in the ID of a row.
func named(obj *unstructured.Unstructured) string {
	return obj.GetKind() + " " + path.Join(obj.GetNamespace(), obj.GetName())
}
