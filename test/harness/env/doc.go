// SPDX-License-Identifier: Apache-2.0

// Package env is the stage of the pipeline where the system under test runs:
//
//	seed -> scenario -> [env] -> {workload || fault} -> record -> history -> invariant -> report
//
// It starts a Kubernetes control plane on this machine (etcd, kube-apiserver
// and, unlike plain envtest, kube-controller-manager, so that owner references
// are collected and namespaces really go away) and runs replicas of an operator
// beside it as real processes. Each replica has a ServiceAccount token that is
// bound to a Pod object, so that authorization is the one that ships and the
// audit log names the replica that sent a request.
//
//	cp, err := env.Start(ctx, env.Options{CRDs: []string{"config/crd/bases"}})
//	defer cp.Stop()
//	objs, _, err := env.InstallOptions{Manifests: "config/default"}.Render(ctx)
//	err = cp.Apply(ctx, objs...)
//	replica, err := env.StartReplica(ctx, cp, env.ReplicaOptions{...})
//
// StartS3 starts a real S3 server in the same manner, for operators that look
// after what is outside the cluster.
//
// A replica with ReplicaOptions.Isolated runs like a Pod's container: see package sandbox.
//
// Nothing here depends on a particular operator. It works on Linux and macOS.
//
// # No process is left behind
//
// Stop ends everything in order. When the process that called Start has no
// chance to call it (a panic, a second Ctrl-C, SIGKILL) a small watchdog does
// it: every child is started through a shell script that notes its own pid
// before it becomes the program, and the watchdog, in a process group of its
// own, reads a pipe of which only the caller holds the other end. When the pipe
// closes, the watchdog kills what the notes still name and removes the working
// folder.
//
// # An existing cluster
//
// With USE_EXISTING_CLUSTER=true, where Options.ExistingCluster allows it, nothing is started or installed and the
// current kubeconfig is used: the operator's CustomResourceDefinitions must be there. There is no audit log then, and
// no operator can be installed.
package env
