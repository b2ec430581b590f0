package main

import (
	"leasehold.dev/test/performance/gate/benchmarks"
	"leasehold.dev/test/performance/gate/compatibility"
	"leasehold.dev/test/performance/gate/costs"
	"leasehold.dev/test/performance/gate/durations"
	"leasehold.dev/test/performance/gate/flakes"
	"leasehold.dev/test/performance/gate/judge"
	"leasehold.dev/test/performance/gate/learned"
)

// checks are all there are, those that are soon done first.
func checks(o options, tolerances *learned.Tolerances) []judge.Check {
	return []judge.Check{
		{Name: "compatibility", Run: compatibility.Check},
		{Name: "benchmarks", Run: benchmarks.Options{Rounds: 3 * o.rounds, Tolerances: tolerances}.Check},
		{Name: "flakes", Run: flakes.Check},
		{Name: "counts", Run: costs.Options{Rounds: o.rounds, Tolerances: tolerances}.Check},
		{Name: "durations", Run: durations.Check},
	}
}
