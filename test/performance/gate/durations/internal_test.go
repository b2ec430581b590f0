package durations

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/testrun"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	packages := []pkg{
		{".", []string{".", "controllers/tenant", "controllers/internal/apply", "api/v1beta1"}},
		{"api/v1beta1", []string{"api/v1beta1"}},
		{"controllers/internal/apply", []string{"controllers/internal/apply"}},
		{"controllers/tenant", []string{"controllers/tenant", "controllers/internal/apply", "api/v1beta1"}},
		{"test/harness/env", []string{"test/harness/env"}},
		{"test/integration/manager", []string{"test/integration/manager", "test/harness/env", "api/v1beta1"}},
		{"test/integration/tenant", []string{"test/integration/tenant", "test/harness/env", "api/v1beta1"}},
	}
	for name, test := range map[string]struct {
		different []string
		want      []string
	}{
		"nothing": {nil, nil},
		"a room: itself, its suite, who imports it, and what runs the program": {[]string{"controllers/tenant"},
			[]string{"controllers/tenant", "test/integration/tenant", ".", "test/integration/manager", "test/harness/env"}},
		"the harness": {[]string{"test/harness/env"}, []string{"test/harness/env", "test/integration/manager", "test/integration/tenant"}},
		"a suite":     {[]string{"test/integration/manager"}, []string{"test/integration/manager"}},
		"manifests, which are the root's": {[]string{"."},
			[]string{".", "test/integration/manager", "test/integration/tenant", "test/harness/env"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			different := map[string]bool{}
			for _, folder := range test.different {
				different[folder] = true
			}
			var got []string
			for _, p := range choose(packages, different) {
				got = append(got, p.folder)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("packages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHome(t *testing.T) {
	t.Parallel()
	folders := map[string]bool{".": true, "test/manifests": true}
	for file, want := range map[string]string{
		"main.go": ".", "go.mod": ".", "config/rbac/manager_role.yaml": ".", "README.md": "", "Makefile": "", "hack/render.sh": "",
		"test/manifests/render_test.go": "test/manifests", "test/manifests/testdata/golden/a.yaml": "test/manifests", "test/README.md": "",
	} {
		if got := home(file, folders); got != want {
			t.Errorf("%s belongs to %q, not to %q", file, got, want)
		}
	}
}

func took(seconds ...float64) times {
	var o testrun.Outcome
	for i, s := range seconds {
		r := testrun.Result{Name: string(rune('A' + i)), State: testrun.Passed, Took: time.Duration(s * float64(time.Second))}
		if s < 0 {
			r.State, r.Took = testrun.Failed, -r.Took
		}
		o.Results = append(o.Results, r)
	}
	return timesOf(o)
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		base, head times
		want       map[string]row.Verdict
		candidates []string
	}{
		"the same":                     {took(1, 2), took(1, 2), map[string]row.Verdict{"": row.Same}, nil},
		"twice as long":                {took(3), took(6), map[string]row.Verdict{"": row.Same}, nil},
		"more, but only by a second":   {took(0.1), took(1.1), map[string]row.Verdict{"": row.Same}, nil},
		"more than twice and a second": {took(0.1, 1), took(1.2, 1), map[string]row.Verdict{"": row.Same}, []string{"A"}},
		"fails at head":                {took(1), took(-5), map[string]row.Verdict{"": row.Same, "/A": row.Unclear}, nil},
		"failed at base":               {took(-1), took(5), map[string]row.Verdict{"": row.Same, "/A": row.Unclear}, nil},
		"new":                          {took(1), took(1, 59), map[string]row.Verdict{"": row.Same}, nil},
		"new and long":                 {took(1), took(1, 61), map[string]row.Verdict{"": row.Same, "/B": row.New}, nil},
		"a new package":                {took(), took(1), map[string]row.Verdict{"": row.New}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, candidates := judge("p", test.base, test.head)
			got := map[string]row.Verdict{}
			for _, r := range rows {
				got[r.ID[len("durations/p"):]] = r.Verdict
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.candidates, candidates); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
		})
	}
}
