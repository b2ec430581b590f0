// SPDX-License-Identifier: Apache-2.0

// Package learn runs an operator that has no description, and writes its subject and its scenarios.
//
//	help text, CRDs, samples -> propose -> Draft -> findLease, two runs of each scenario -> Learn -> Draft -> write
//
// Values that are not certain are marked as guesses in the written files.
package learn
