// Package e2e drives the operator as a platform team would, on a kind cluster of
// three nodes: only what needs real Pods is here, and test/integration has the
// rest. Run it by `make e2e`, which builds what it needs; the features share the
// cluster and run one after the other.
package e2e
