// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/record"
)

func TestReadMetrics(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	page, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, page)
	}))
	defer server.Close()
	page = `# TYPE c counter
c{a="1"} 2
c{a="2"} 3
# TYPE h histogram
h_bucket{le="1"} 3
h_bucket{le="+Inf"} 4
h_sum 10
h_count 4
# TYPE g gauge
g -1
u 7
`
	metrics, err := record.ReadMetrics(t.Context(), server.Client(), server.URL)
	g.Expect(err).NotTo(HaveOccurred())
	for name, want := range map[string]float64{"c": 5, "h": 4, "g": -1, "u": 7} {
		sum, found := metrics.Sum(name)
		g.Expect(found).To(BeTrue(), name)
		g.Expect(sum).To(Equal(want), name)
	}
	_, found := metrics.Sum("absent")
	g.Expect(found).To(BeFalse())

	page = "not a metric at all"
	_, err = record.ReadMetrics(t.Context(), server.Client(), server.URL)
	g.Expect(err).To(MatchError(ContainSubstring("parsing metrics")))
	status = http.StatusForbidden
	_, err = record.ReadMetrics(t.Context(), server.Client(), server.URL)
	g.Expect(err).To(MatchError(ContainSubstring("403 Forbidden")))
	server.Close()
	_, err = record.ReadMetrics(t.Context(), server.Client(), server.URL)
	g.Expect(err).To(MatchError(ContainSubstring("reading metrics")))
}
