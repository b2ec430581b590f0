package run

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/harness/scenario"
)

func TestFailoverPlans(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
	steps := []scenario.Step{{Name: "one"}, {Wait: &scenario.Wait{}}, {Name: "two"}}
	write := []write{{Method: "PATCH", Path: "/a", Effective: true}}
	all := []string{
		"s:false-evidence-terminated:PATCH:/a:1", "s:false-evidence-deleted:PATCH:/a:1", "s:false-evidence-replaced:PATCH:/a:1", "s:leader-pause-reconnect:PATCH:/a:1",
		"s:watch-delay:WATCH:" + leases, "s:watch-gap:WATCH:" + leases, "s:stale-start:START:" + leases,
	}
	for name, tc := range map[string]struct {
		run  observation
		want []string
	}{
		"All":            {observation{Writes: write, Leases: leases}, all},
		"NobodyWatches":  {observation{Writes: write}, all[:4]},
		"NothingWritten": {observation{Leases: leases}, all[4:]},
	} {
		t.Run(name, func(t *testing.T) {
			chosen := map[string]bool{}
			for seed := range uint64(20) {
				var got []string
				for _, p := range derivePlans(scenario.Scenario{Name: "s", Steps: steps}, []observation{tc.run}, seed) {
					id := p.ID()
					if back, err := ParsePlan(id); err != nil || back != p {
						t.Errorf("%s read again is %v, %v", id, back, err)
					}
					if found := regexp.MustCompile(`^(s:(?:watch-[a-z]+|stale-start):.*):([12])$`).FindStringSubmatch(id); found != nil {
						id, chosen[found[2]] = found[1], true
					}
					for _, want := range all {
						if id == want {
							got = append(got, id)
						}
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
				}
			}
			if want := tc.run.Leases != ""; want != (chosen["1"] && chosen["2"]) {
				t.Errorf("the steps chosen are %v", chosen)
			}
		})
	}
}
