// SPDX-License-Identifier: Apache-2.0

// Package attack is a library of what a hostile tenant does:
//
//	scenario (names and parameters) -> [attack] -> run (does it as the tenant)
//
// An attack is a pure function from parameters to steps of a scenario. What it makes
// comes from the scenario as a template, so no attack is specific to an operator.
package attack
