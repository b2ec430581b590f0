// Package subject reads from a file the subject of a proof: an operator as it ships,
// what it promises, and the scenarios that put that to the test. docs/subject.md has all fields,
// and docs/scenarios.md an example.
//
// What the file leaves out is taken from the manifests: the user that the replicas are, the
// namespace of the Lease, the CustomResourceDefinitions, what is written to the
// audit log with its bodies and what is watched.
package subject
