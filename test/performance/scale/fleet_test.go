package scale

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestRatioIsOfTheMeanTimeOfAWrite(t *testing.T) {
	r := fleet{
		n: 10, took: 30 * time.Second,
		before: pace{writes: 100, took: 10 * time.Second}, after: pace{writes: 10, took: 3 * time.Second},
	}
	// 10 Tenants of 10 writes, at 100 ms before and 300 ms after.
	NewWithT(t).Expect(r.ratio(10)).To(BeNumerically("~", 1.5, 1e-9))
}

func TestHeapEachCountsTheTenantsOfPractise(t *testing.T) {
	r := fleet{n: 40, empty: footprint{heap: 1000}, known: footprint{heap: 8000}}
	// 40 Tenants, 10 to warm up, and 10 before and after.
	NewWithT(t).Expect(r.heapEach()).To(BeNumerically("~", 100, 1e-9))
}
