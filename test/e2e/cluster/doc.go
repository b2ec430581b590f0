// Package cluster runs kind clusters for tests of operators: real nodes, real
// Pods, an audit log, and ways to break what only nodes and Pods have. A cluster
// has a kubeconfig of its own and leaves nothing behind when it is stopped.
//
// What env does with processes on a control plane without nodes, this package
// does with containers; specs that do not need a kubelet are faster there.
package cluster
