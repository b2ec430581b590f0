package tenant

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"leasehold.dev/api/v1beta1"
)

// action is what a reconcile does with one namespace.
type action string

const (
	create   action = "create"   // in the spec, does not exist
	keep     action = "keep"     // in the spec and ours: correct ownership metadata and binding
	restrict action = "restrict" // ours under a name that is refused: only take rights away
	wait     action = "wait"     // ours and terminating; nothing can be done in it
	conflict action = "conflict" // in the spec, exists, and is not ours
	remove   action = "remove"   // ours, no longer in the spec, policy Delete
	release  action = "release"  // ours, no longer in the spec, policy Retain
	forget   action = "forget"   // refused or no longer in the spec, and gone or never ours
)

// step is the decision about one namespace.
type step struct {
	name   string
	action action
	live   *corev1.Namespace // nil if it does not exist
}

// plan is the decision of one reconcile.
type plan struct {
	// invalid is what is wrong with names of the spec. They are not created.
	invalid field.ErrorList
	// deleting: the Tenant is on its way out.
	deleting bool
	// steps by namespace name, sorted.
	steps []step
	// strays are RoleBindings of the Tenant where it has no namespace.
	strays []*rbacv1.RoleBinding
	// disown are namespaces with an owner reference that falsely names the
	// Tenant: the garbage collector would delete them with it.
	disown []*corev1.Namespace
}

// decide turns what was observed into what is to be done. It is pure.
func decide(o *observation, operatorNamespace string) plan {
	t := o.tenant
	p := plan{deleting: !t.DeletionTimestamp.IsZero()}
	var refused map[string]bool
	if !p.deleting {
		refused, p.invalid = refusedNames(t, operatorNamespace)
	}
	held := heldNames(t)
	slices.Sort(held)
	wanted, listed := wantedNames(t, refused), heldSet(t)
	keeps := map[string]bool{}
	for _, name := range held {
		live := o.namespaces[name]
		ours := live != nil && ownsNamespace(t, listed, live)
		s := step{name: name, live: live, action: actionFor(wanted[name], refused[name], live, ours, leavingPolicy(t, live))}
		// A namespace to create may exist where the cache is stale. If it does not,
		// there is no binding in it either.
		keeps[name] = slices.Contains([]action{create, keep, restrict, wait, remove}, s.action)
		p.steps = append(p.steps, s)
		if live != nil && !ours && ownerIndex(t, live) >= 0 {
			p.disown = append(p.disown, live)
		}
	}
	p.strays = strays(o, p.steps, keeps)
	for _, ns := range o.foreign {
		if ownerIndex(t, ns) >= 0 {
			p.disown = append(p.disown, ns)
		}
	}
	return p
}

// strays are the Tenant's RoleBindings that must go by themselves: marked ones
// outside its namespaces, and the one, marked or not, in a namespace let go.
func strays(o *observation, steps []step, keeps map[string]bool) []*rbacv1.RoleBinding {
	var out []*rbacv1.RoleBinding
	for _, binding := range o.marked {
		if ownsChild(o.tenant, binding) && !keeps[binding.Namespace] {
			out = append(out, binding)
		}
	}
	for _, s := range steps {
		binding := o.bindings[s.name]
		if s.action == release && binding != nil && !ownsChild(o.tenant, binding) && ownsBinding(o.tenant, binding, o.holders[s.name]) {
			out = append(out, binding)
		}
	}
	return out
}

// actionFor is the decision table for one namespace.
func actionFor(wanted, refused bool, live *corev1.Namespace, ours bool, policy v1beta1.NamespaceDeletionPolicy) action {
	terminating := live != nil && !live.DeletionTimestamp.IsZero()
	switch {
	case refused && ours && !terminating:
		return restrict
	case refused && ours:
		return wait
	case refused:
		return forget
	case wanted && live == nil:
		return create
	case wanted && !ours:
		return conflict
	case wanted && terminating:
		return wait
	case wanted:
		return keep
	case live == nil, !ours:
		return forget
	case policy == v1beta1.NamespaceRetain:
		return release
	case terminating:
		return wait
	default:
		return remove
	}
}

// leavingPolicy is what becomes of one namespace if it leaves the Tenant. A
// deletion with --cascade=orphan asks for the children to be kept, whatever the
// spec says. The garbage collector then takes the owner references off and its
// finalizer with them, perhaps before we look: a namespace of a Tenant that is
// being deleted which has lost its owner reference is therefore kept.
func leavingPolicy(t *v1beta1.Tenant, live *corev1.Namespace) v1beta1.NamespaceDeletionPolicy {
	if !t.DeletionTimestamp.IsZero() && live != nil && ownerIndex(t, live) < 0 {
		return v1beta1.NamespaceRetain
	}
	return policyOf(t)
}

// policyOf is the policy that the spec, or the way of deletion, asks for.
func policyOf(t *v1beta1.Tenant) v1beta1.NamespaceDeletionPolicy {
	if !t.DeletionTimestamp.IsZero() && slices.Contains(t.Finalizers, metav1.FinalizerOrphanDependents) {
		return v1beta1.NamespaceRetain
	}
	if t.Spec.NamespaceDeletionPolicy == v1beta1.NamespaceRetain {
		return v1beta1.NamespaceRetain
	}
	return v1beta1.NamespaceDelete
}

// creates are the names of the namespaces the plan creates.
func (p plan) creates() []string {
	var names []string
	for _, s := range p.steps {
		if s.action == create {
			names = append(names, s.name)
		}
	}
	return names
}
