// Package record is the stage of the pipeline that writes down what happened:
//
//	seed -> scenario -> env -> {workload || fault} -> [record] -> history -> invariant -> report
//
// It reads what the API server itself has noted, the audit log, selects from it,
// and makes a history of it. That is the ground truth of who asked for what,
// whatever a client says it did.
package record
