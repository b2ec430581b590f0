package environment

import (
	"k8s.io/utils/clock"
)

// Parameters are all that a measurement gets from its caller.
type Parameters struct {
	// Checkout is what is measured.
	Checkout Checkout
	// Seed is the seed of all random choices.
	Seed uint64
	// Quick measures as little as shows that the measurement works: few runs of small sizes.
	Quick bool
	// Clock measures time.
	Clock clock.WithTicker
	// Say reports progress, as fmt.Printf without the end of the line.
	Say func(format string, args ...any)
}
