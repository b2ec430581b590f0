// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		match        Match
		method, path string
		query        string
		want         bool
	}{
		"zero is everything":         {Match{}, "PATCH", "/x", "a=b", true},
		"method":                     {Match{Methods: []string{"PUT", "DELETE"}}, "DELETE", "/", "", true},
		"other method":               {Match{Methods: []string{"PUT", "DELETE"}}, "GET", "/", "", false},
		"path":                       {Match{Path: "/bucket"}, "GET", "/bucket", "", true},
		"path with a slash":          {Match{Path: "/bucket"}, "GET", "/bucket/", "", true},
		"longer path":                {Match{Path: "/bucket"}, "GET", "/bucket2", "", false},
		"path below":                 {Match{Path: "/bucket"}, "GET", "/bucket/key", "", false},
		"pattern":                    {Match{Pattern: regexp.MustCompile("^/bucket-.$")}, "GET", "/bucket-1", "", true},
		"other pattern":              {Match{Pattern: regexp.MustCompile("^/bucket-.$")}, "GET", "/bucket-12", "", false},
		"parameter with any value":   {Match{Query: map[string]string{"tagging": ""}}, "PUT", "/b", "tagging", true},
		"parameter with the value":   {Match{Query: map[string]string{"watch": "true"}}, "GET", "/b", "watch=true", true},
		"parameter with another":     {Match{Query: map[string]string{"watch": "true"}}, "GET", "/b", "watch=false", false},
		"parameter missing":          {Match{Query: map[string]string{"tagging": ""}}, "PUT", "/b", "", false},
		"one of two missing":         {Match{Query: map[string]string{"a": "", "b": ""}}, "PUT", "/b", "a=1", false},
		"no parameter":               {Match{NoQuery: true}, "PUT", "/b", "", true},
		"a parameter that is no use": {Match{NoQuery: true}, "PUT", "/b", "tagging", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			query, err := url.ParseQuery(tc.query)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(tc.match.fits(tc.method, tc.path, query)).To(Equal(tc.want))
		})
	}
}

func TestRule_ActsOnARange(t *testing.T) {
	for name, tc := range map[string]struct {
		match Match
		want  []int // status codes
	}{
		"all":          {Match{Path: "/it"}, []int{418, 418, 418, 418}},
		"the first":    {Match{Path: "/it", To: 1}, []int{418, 200, 200, 200}},
		"the third on": {Match{Path: "/it", From: 3}, []int{200, 200, 418, 418}},
		"two of them":  {Match{Path: "/it", From: 2, To: 3}, []int{200, 418, 418, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := startProxy(t, Options{Upstream: startService(t).URL})
			injection := p.Inject(Rule{Match: tc.match, Fault: Answer{Status: http.StatusTeapot}})
			var got []int
			for range tc.want {
				g.Expect(ask(t.Context(), p, http.MethodGet, "/other", "").Status).To(Equal(http.StatusOK),
					"does not match and does not count")
				got = append(got, ask(t.Context(), p, http.MethodGet, "/it", "").Status)
			}
			g.Expect(got).To(Equal(tc.want))
			hit := 0
			for _, status := range tc.want {
				if status == http.StatusTeapot {
					hit++
				}
			}
			g.Expect(injection.Count()).To(Equal(hit))
		})
	}
}

func TestRule_FirstDueRuleActs(t *testing.T) {
	g := NewWithT(t)
	p := startProxy(t, Options{Upstream: startService(t).URL})
	second := p.Inject(Rule{Name: "second", Match: Match{From: 2, To: 2}, Fault: Answer{Status: 502}})
	rest := p.Inject(Rule{Name: "rest", Match: Match{From: 3}, Fault: Answer{Status: 503}})
	var got []int
	for range 4 {
		got = append(got, ask(t.Context(), p, http.MethodGet, "/", "").Status)
	}
	g.Expect(got).To(Equal([]int{200, 502, 503, 503}))
	g.Expect([]int{second.Count(), rest.Count()}).To(Equal([]int{1, 2}))

	rest.Heal()
	rest.Heal()
	g.Expect(ask(t.Context(), p, http.MethodGet, "/", "").Status).To(Equal(200), "after Heal")
	g.Expect(rest.Happened()).To(BeTrue(), "what happened stays true")
	var rules []string
	for _, r := range p.Journal().Requests {
		rules = append(rules, r.Rule)
	}
	g.Expect(rules).To(Equal([]string{"", "second", "rest", "rest", ""}))
}
