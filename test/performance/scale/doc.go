// Package scale measures what becomes of the operator when there is much: how
// long fleets of Tenants take beside the same writes by a client that does nothing
// else, what each costs in memory, and how thousands of StorageBuckets share
// the workers and the time.
package scale
