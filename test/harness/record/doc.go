// SPDX-License-Identifier: Apache-2.0

// Package record is the stage of the pipeline that records what happened:
//
//	seed -> scenario -> env -> {workload || fault} -> [record] -> history -> invariant -> report
//
// It reads the audit log of the API server, selects events from it, and builds a
// history. The audit log is authoritative: it does not depend on what clients report.
package record
