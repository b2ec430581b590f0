// Package scale measures the operator with many Tenants: how long fleets of them take beside the
// same writes by a client that does nothing else, what each costs in memory, and how many writes
// conflict with those of editors.
package scale
