// SPDX-License-Identifier: Apache-2.0

// Package env is the stage of the pipeline where the system under test runs:
//
//	seed -> scenario -> [env] -> {workload || fault} -> record -> history -> invariant -> report
//
// It starts a Kubernetes control plane on this machine (etcd, kube-apiserver
// and, unlike plain envtest, kube-controller-manager, so that owner references
// are collected and namespaces are really deleted) and runs replicas of an operator
// beside it as real processes. Each replica has a ServiceAccount token that is
// bound to a Pod object, so that the shipped RBAC rules apply and the audit log
// names the replica that sent a request.
//
//	cp, err := env.Start(ctx, env.Options{CRDs: []string{"config/crd/bases"}})
//	defer cp.Stop()
//	objs, _, err := env.InstallOptions{Manifests: "config/default"}.Render(ctx)
//	err = cp.Apply(ctx, objs...)
//	replica, err := env.StartReplica(ctx, cp, env.ReplicaOptions{...})
//
// StartS3 starts a real S3 server in the same manner, for operators that manage
// systems outside the cluster.
//
// A replica with ReplicaOptions.Isolated runs like a Pod's container: see package sandbox.
//
// Nothing here depends on a particular operator. It works on Linux and macOS.
//
// # No process is left behind
//
// Stop stops everything in order. If the process that called Start cannot call
// Stop (after a panic, a second Ctrl-C or SIGKILL), a small watchdog cleans up.
// Every child is started through a shell script that records its own pid before
// it executes the program. The watchdog, in a separate process group, reads a
// pipe of which only the caller holds the other end. When the pipe closes, the
// watchdog kills the recorded processes that still run and removes the working
// directory.
//
// # An existing cluster
//
// With USE_EXISTING_CLUSTER=true and Options.ExistingCluster, Start connects to the cluster of the current kubeconfig
// and neither starts nor installs anything: the operator's CustomResourceDefinitions must already be installed. There
// is then no audit log, and Install returns an error.
package env
