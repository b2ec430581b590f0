// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"leasehold.dev/test/harness/scenario"
)

// Order returns the order of plans that the seed fixes, for package slices. The order of two plans
// does not depend on the others, so it is the same when a run leads to some plans more or fewer.
func Order(seed uint64) func(a, b Plan) int {
	return func(a, b Plan) int {
		return cmp.Or(cmp.Compare(numbers(seed, "order", a).Uint64(), numbers(seed, "order", b).Uint64()),
			cmp.Compare(a.ID(), b.ID()))
	}
}

// numbers returns the random numbers of a plan for a purpose. No number serves two purposes:
// otherwise, a plan that is early due to a small number would always have the first variant.
func numbers(seed uint64, purpose string, p Plan) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(purpose + " " + p.ID())) // a hash never fails
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// draw returns one of the variants for the plan. The ID of the plan must not have the variant yet.
func draw(seed uint64, p Plan, variants []string) string {
	return variants[numbers(seed, "variant", p).IntN(len(variants))]
}

// one returns the first of the possible plans in the order of the seed, if there are any. Another
// possible plan changes the choice only if it is chosen itself.
func (d *derivation) one(possible []Plan) []Plan {
	if len(possible) == 0 {
		return nil
	}
	return []Plan{slices.MinFunc(possible, Order(d.seed))}
}

// few returns the first possible plan, the last, and one between, each once.
func (d *derivation) few(possible []Plan) []Plan {
	last := len(possible) - 1
	if last < 1 {
		return possible
	}
	return slices.Concat(possible[:1], d.one(possible[1:last]), possible[last:])
}

func (d *derivation) at(f scenario.FaultName, variant string, targets []Target) []Plan {
	plans := make([]Plan, len(targets))
	for i, t := range targets {
		plans[i] = d.plan(f, variant, t)
	}
	return plans
}
