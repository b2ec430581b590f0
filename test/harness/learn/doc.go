// SPDX-License-Identifier: Apache-2.0

// Package learn describes an operator that has no description yet: it derives a subject and its
// scenarios from what the operator ships and from what two clean runs recorded.
//
//	help text, CRDs, samples -> Propose -> Draft -> two runs of each scenario -> Learn -> Draft -> Write
//
// All of it is data: the caller runs the operator. What is not certain is a guess, and the written
// file marks it as one.
package learn
