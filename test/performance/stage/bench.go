package stage

import (
	"k8s.io/utils/clock"
)

// Bench is what a measurement is given, and all that it takes from around it.
type Bench struct {
	// Checkout is what is measured.
	Checkout Checkout
	// Seed is what chance is drawn from.
	Seed uint64
	// Quick asks for as little as shows that the measurement works: few runs of small
	// sizes, whose figures say nothing.
	Quick bool
	// Clock is the time that is measured.
	Clock clock.WithTicker
	// Say tells those who wait what is done now, as fmt.Printf without the end of the line.
	Say func(format string, args ...any)
}
