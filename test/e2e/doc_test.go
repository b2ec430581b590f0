// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the operator as a platform team uses it, on a kind cluster of three nodes. It
// has only tests that need real Pods; test/integration has the rest. `make e2e` builds what it
// needs and runs it. The features share the cluster and run one after the other.
package e2e
