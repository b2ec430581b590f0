package markdownview

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The Deployment is written only beside content of its own: its Pods would show a foreign one.
func TestDeploymentNeedsItsContent(t *testing.T) {
	for _, of := range []action{create, keep, update, wait, conflict} {
		for _, fails := range []bool{false, true} {
			o := appliedObservation(t, view())
			w := newFixture(t, view(), o.configMap, o.service)
			o.deployment = nil
			if of == create {
				if err := w.client.Delete(t.Context(), o.configMap); err != nil {
					t.Fatal(err)
				}
				o.configMap = nil
			}
			if fails {
				w.answers["ConfigMap"] = errors.New("boom")
			}
			p := plan{steps: []step{{kind: configMap, name: "markdowns-book", action: of, differs: of == update},
				{kind: deployment, name: "viewer-book", action: create}, {kind: service, name: "viewer-book", action: keep}}}
			res := w.act(t.Context(), o, p, render(o.view, defaultImage))
			written := of == keep || !fails && (of == create || of == update)
			if got := slices.Contains(w.writes, "Deployment"); got != written {
				t.Errorf("the ConfigMap's step is %s, failing %t: the Deployment is written: %t, want %t", of, fails, got, written)
			}
			want := map[bool]outcome{true: created, false: withheld}[written]
			if diff := cmp.Diff(want, res.outcomes[deployment]); diff != "" {
				t.Errorf("%s, failing %t: outcome (-want +got):\n%s", of, fails, diff)
			}
		}
	}
}
