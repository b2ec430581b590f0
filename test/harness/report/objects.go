// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/history"
)

// writeObjects writes the last state that is known of every object as YAML, by
// name, with when that was and whether it was still there at the end.
func (r *Run) writeObjects(w io.Writer) error {
	lives := slices.Clone(r.History.Index().All())
	slices.SortStableFunc(lives, func(a, b *history.Lifetime) int { return strings.Compare(a.String(), b.String()) })
	for _, life := range lives {
		fmt.Fprintf(w, "---\n# %s (UID %s)", life.Key, life.UID)
		last := life.Last()
		if life.End != nil {
			fmt.Fprintf(w, ", deleted %s", life.End.When())
			if last == nil && life.End.Object != nil {
				last = life.End
			}
		}
		if last == nil {
			fmt.Fprint(w, ", never seen\n")
			continue
		}
		text, err := yaml.Marshal(last.Object.Object)
		if err != nil {
			return fmt.Errorf("writing %s: %w", life.Key, err)
		}
		if _, err := fmt.Fprintf(w, ", as of %s\n%s", last.RevisionRange, text); err != nil {
			return err
		}
	}
	return nil
}
