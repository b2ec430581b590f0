// SPDX-License-Identifier: Apache-2.0

// Package cluster runs kind clusters for tests of operators: real nodes, real Pods, an audit log,
// and faults that only nodes and Pods have. A cluster has its own kubeconfig and leaves nothing
// behind when it is stopped.
//
// Package env does the same with processes on a control plane without nodes. Specs that do not need
// a kubelet run faster there.
package cluster
