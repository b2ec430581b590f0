// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

// action is what a reconcile does with one namespace.
type action string

const (
	create   action = "create"   // in the spec, does not exist
	keep     action = "keep"     // in the spec and owned: correct ownership metadata and binding
	restrict action = "restrict" // owned under a refused name: only remove subjects
	await    action = "wait"     // owned and terminating: nothing can be created in it
	conflict action = "conflict" // in the spec, exists, and is not owned
	remove   action = "remove"   // owned, no longer in the spec, policy Delete
	release  action = "release"  // owned, no longer in the spec, policy Retain
	forget   action = "forget"   // refused or no longer in the spec, and deleted or never owned
)

// step is the decision about one namespace.
type step struct {
	name   string
	action action
	live   *corev1.Namespace // nil if it does not exist
	before string            // the reason in the status
}

// plan is the decision of one reconcile.
type plan struct {
	steps   []step   // by namespace name
	creates []string // the names of the namespaces that the plan creates
}

// decide returns the plan for an observation. It is pure.
func decide(o *observation) plan {
	var p plan
	t, status := o.tenant, recorded(o.tenant)
	for _, name := range slices.Sorted(slices.Values(usedNames(t))) {
		live := o.namespaces[name]
		ours := live != nil && owns(t, live, status[name].UID)
		wanted, inSpec := o.wanted[name]
		s := step{name: name, live: live, before: status[name].Reason,
			action: actionFor(wanted, inSpec && !wanted, live, ours, removalPolicy(t, live))}
		p.steps = append(p.steps, s)
		if s.action == create {
			p.creates = append(p.creates, name)
		}
	}
	return p
}

// actionFor returns the action for one namespace. A refused name is not wanted. Release precedes await.
func actionFor(wanted, refused bool, live *corev1.Namespace, ours bool, policy v1beta1.NamespaceDeletionPolicy) action {
	terminating := live != nil && !live.DeletionTimestamp.IsZero()
	switch {
	case wanted && live == nil:
		return create
	case wanted && !ours:
		return conflict
	case live == nil, !ours:
		return forget
	case (wanted || refused) && terminating:
		return await
	case refused:
		return restrict
	case wanted:
		return keep
	case policy == v1beta1.NamespaceRetain:
		return release
	case terminating:
		return await
	default:
		return remove
	}
}

// removalPolicy returns the policy for one namespace that is removed from the Tenant. After a deletion with
// --cascade=orphan the garbage collector may have removed its finalizer and the owner references already.
// So a terminating Tenant retains each namespace without an owner reference to it.
func removalPolicy(t *v1beta1.Tenant, live *corev1.Namespace) v1beta1.NamespaceDeletionPolicy {
	if !t.DeletionTimestamp.IsZero() && live != nil && !isOwner(t, live) {
		return v1beta1.NamespaceRetain
	}
	return policyOf(t)
}

// isOwner reports whether the garbage collector takes the Tenant for an owner of a namespace.
func isOwner(t *v1beta1.Tenant, ns *corev1.Namespace) bool {
	return slices.ContainsFunc(ns.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == t.UID })
}
