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
// A replica with ReplicaOptions.Isolated runs like a Pod's container: see package sandbox.
//
// Nothing here depends on a particular operator. It works on Linux and macOS.
//
// No process is left behind: see package process.
//
// # An existing cluster
//
// With USE_EXISTING_CLUSTER=true and Options.ExistingCluster, Start connects to the cluster of the current kubeconfig
// and neither starts nor installs anything: the operator's CustomResourceDefinitions must already be installed. There
// is then no audit log, and Install returns an error.
package env
