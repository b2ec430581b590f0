// SPDX-License-Identifier: Apache-2.0

// Package leasehold starts the shipped operator of this repository as processes beside a control
// plane of harness/env. The integration suites, the measurements and make run use it.
package leasehold

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
)

// The identity of the operator, from config/default.
const (
	Namespace      = "leasehold-system"
	ServiceAccount = "leasehold-controller-manager"
	User           = "system:serviceaccount:" + Namespace + ":" + ServiceAccount
	Lease          = "manager.leasehold.dev"
)

// StartControlPlane starts a control plane with the CRDs of the folder config. Its audit log has
// the bodies of writes to the operator's kinds.
func StartControlPlane(ctx context.Context, config string, o env.Options) (*env.ControlPlane, error) {
	o.CRDs = append(slices.Clone(o.CRDs), filepath.Join(config, "crd", "bases"))
	o.AuditGroups = append(slices.Clone(o.AuditGroups), v1beta1.GroupVersion.Group)
	return env.Start(ctx, o)
}

// Subject is the operator as the folder config installs it, with the program at binary. args follow
// the shipped arguments and Arguments.
func Subject(config, binary string, args ...string) env.InstallOptions {
	return env.InstallOptions{
		Manifests: filepath.Join(config, "default"),
		Binary:    binary,
		Args:      func(p env.ReplicaPorts) []string { return append(Arguments(p), args...) },
	}
}

// Arguments are the arguments that allow several replicas on one machine. All others are as shipped.
func Arguments(p env.ReplicaPorts) []string {
	return []string{
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", p.Probe),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", p.Metrics),
		fmt.Sprintf("--webhook-bind-address=127.0.0.1:%d", p.Webhook),
	}
}

// Scheme returns a new scheme with the kinds of Kubernetes and those of the operator.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1beta1.AddToScheme(scheme))
	return scheme
}

// ElectionLease reads the Lease of the leader election.
func ElectionLease(ctx context.Context, c client.Reader) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: Lease}, lease); err != nil {
		return nil, fmt.Errorf("reading the election Lease: %w", err)
	}
	return lease, nil
}

// Holder returns the replica that the Lease names, or nil if it names none of replicas.
func Holder(lease *coordinationv1.Lease, replicas []*env.Replica) *env.Replica {
	pod, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	for _, r := range replicas {
		if r.Name() == pod {
			return r
		}
	}
	return nil
}
