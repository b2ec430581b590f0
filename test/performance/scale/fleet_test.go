package scale

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestIdleIsTheShareWithoutAWriteUnderWay(t *testing.T) {
	r := fleet{took: 10 * time.Second, spent: cost{answering: 30 * time.Second}}
	// Four workers have 40 s.
	NewWithT(t).Expect(r.idle()).To(BeNumerically("~", 0.25, 1e-9))
}

func TestHeapEachIsTheGrowth(t *testing.T) {
	r := fleet{n: 70, empty: footprint{heap: 1000}, known: footprint{heap: 8000}}
	NewWithT(t).Expect(r.heapEach()).To(BeNumerically("~", 100, 1e-9))
}
