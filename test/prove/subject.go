package main

import (
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
)

// lookOn is for how long a scenario looks on at an operator at rest; less proves
// nothing.
const lookOn = 2 * time.Second

// leasehold is our operator as it ships, with the manager's program and the
// repository's config folder.
func leasehold(manager, config string) run.Subject {
	return run.Subject{
		Plane: env.Options{
			CRDs:        []string{filepath.Join(config, "crd", "bases")},
			AuditGroups: []string{v1beta1.GroupVersion.Group},
		},
		Operator: env.Subject{
			Manifests: filepath.Join(config, "default"),
			Binary:    manager,
			Args:      arguments,
		},
		Promises: promises(),
		Watched: []schema.GroupVersionResource{
			v1beta1.GroupVersion.WithResource("tenants"),
			{Version: "v1", Resource: "namespaces"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		},
	}
}

// arguments are what several replicas on one machine need, and Leases that are
// short, as each death of a leader costs one.
func arguments(p env.ReplicaPorts) []string {
	return []string{
		"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms",
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", p.Probe),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", p.Metrics), "--metrics-secure=false",
		"--webhook-host=127.0.0.1", fmt.Sprintf("--webhook-port=%d", p.Webhook),
	}
}

// promises are what has to be known of Leasehold to judge it.
func promises() invariant.Operator {
	group := v1beta1.GroupVersion.Group
	rbac := func(resource string) history.Resource {
		return history.Resource{Group: "rbac.authorization.k8s.io", Resource: resource}
	}
	ours := func(r history.Resource) invariant.Child {
		return invariant.Child{Resource: r, Annotation: v1beta1.AnnotationTenantUID, Controlled: true}
	}
	namespace := ours(history.Resource{Resource: "namespaces"})
	namespace.Awaited = true
	return invariant.Operator{
		Users: []string{"system:serviceaccount:leasehold-system:leasehold-controller-manager"},
		Lease: history.Key{Resource: history.Leases, Namespace: "leasehold-system", Name: "manager.leasehold.dev"},
		// Who does not lead serves admission too: it asks who somebody is, and looks
		// after the certificate where there is none.
		AnyReplica: []history.Resource{
			{Group: "events.k8s.io", Resource: "events"}, {Resource: "events"}, {Resource: "secrets"},
			{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
			{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		},
		Kinds: []invariant.Kind{{
			Resource:  history.Resource{Group: group, Resource: "tenants"},
			Finalizer: v1beta1.TenantFinalizer,
			Ready:     v1beta1.ConditionReady,
			Kept:      &invariant.Field{Path: "spec.namespaceDeletionPolicy", Is: string(v1beta1.NamespaceRetain)},
			Children:  []invariant.Child{namespace, ours(rbac("rolebindings")), ours(rbac("clusterroles")), ours(rbac("clusterrolebindings"))},
		}},
		Limits: invariant.Limits{
			Quiet: metav1.Duration{Duration: lookOn}, Unchanged: 20, PerGeneration: 20, InARow: 5, Events: 5,
			Grace: metav1.Duration{Duration: 40 * time.Second},
		},
	}
}
