// Package record reads what the API server itself wrote down: the audit log. It
// is the ground truth of who asked for what, whatever a client says it did.
package record
