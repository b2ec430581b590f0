// SPDX-License-Identifier: Apache-2.0

// Package learn drafts the description of an operator: it derives a subject and its scenarios from
// the manifests of the operator and from the records of two clean runs.
//
//	help text, CRDs, samples -> Propose -> Draft -> two runs of each scenario -> Learn -> Draft -> Write
//
// The package handles only data; the caller runs the operator. Values that are not certain are marked
// as guesses in the written files.
package learn
