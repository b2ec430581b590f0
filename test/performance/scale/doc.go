// Package scale measures the operator with many Tenants: how long fleets of them take, which part
// of that the operator takes for itself, what each costs in memory, and how many writes conflict
// with those of editors.
package scale
