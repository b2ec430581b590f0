package tenant

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"leasehold.dev/api/v1beta1"
)

// labelPodSecurity is the label by which a namespace asks for a Pod Security Standard.
const labelPodSecurity = "pod-security.kubernetes.io/enforce"

// marks are the metadata that say an object is the Tenant's.
type marks struct {
	labels      map[string]string
	annotations map[string]string
	// owner is nil where the object must outlive the Tenant.
	owner *metav1.OwnerReference
}

// childMarks are the marks of everything but namespaces.
func childMarks(t *v1beta1.Tenant) marks {
	return marks{
		labels: map[string]string{
			v1beta1.LabelTenant:    t.Name,
			v1beta1.LabelManagedBy: v1beta1.ManagedByValue,
		},
		annotations: map[string]string{v1beta1.AnnotationTenantUID: string(t.UID)},
		owner:       metav1.NewControllerRef(t, tenantKind),
	}
}

// namespaceMarks are the marks of a namespace. Under Retain it has no owner
// reference: a foreground deletion lets the garbage collector delete what the
// Tenant owns before any finalizer of ours could stop it.
func namespaceMarks(t *v1beta1.Tenant, podSecurityLevel string) marks {
	m := childMarks(t)
	if policyOf(t) == v1beta1.NamespaceRetain {
		m.owner = nil
	}
	if podSecurityLevel != "" {
		m.labels[labelPodSecurity] = podSecurityLevel
	}
	return m
}

// on reports whether the object carries all the marks.
func (m marks) on(o metav1.Object) bool {
	for k, v := range m.labels {
		if o.GetLabels()[k] != v {
			return false
		}
	}
	for k, v := range m.annotations {
		if o.GetAnnotations()[k] != v {
			return false
		}
	}
	return m.owner == nil || slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return equality.Semantic.DeepEqual(ref, *m.owner)
	})
}

func (m marks) ownerConfig() []*metav1ac.OwnerReferenceApplyConfiguration {
	if m.owner == nil {
		return nil
	}
	return []*metav1ac.OwnerReferenceApplyConfiguration{metav1ac.OwnerReference().
		WithAPIVersion(m.owner.APIVersion).WithKind(m.owner.Kind).WithName(m.owner.Name).WithUID(m.owner.UID).
		WithController(*m.owner.Controller).WithBlockOwnerDeletion(*m.owner.BlockOwnerDeletion)}
}

func namespaceConfig(name string, m marks) *corev1ac.NamespaceApplyConfiguration {
	return corev1ac.Namespace(name).
		WithLabels(m.labels).WithAnnotations(m.annotations).WithOwnerReferences(m.ownerConfig()...)
}

// unmark takes the Tenant's marks, and owner references to its predecessors, off a namespace in memory and reports whether
// there were any. The pod-security level stays: taking it away would loosen
// what may run there.
func unmark(t *v1beta1.Tenant, ns *corev1.Namespace) bool {
	had := removeOwners(ns, func(ref metav1.OwnerReference) bool { return ref.UID == t.UID || isPredecessor(t, ref) })
	if ns.Labels[v1beta1.LabelTenant] == t.Name {
		delete(ns.Labels, v1beta1.LabelTenant)
		had = true
	}
	if ns.Labels[v1beta1.LabelManagedBy] == v1beta1.ManagedByValue {
		delete(ns.Labels, v1beta1.LabelManagedBy)
		had = true
	}
	if ns.Annotations[v1beta1.AnnotationTenantUID] == string(t.UID) {
		delete(ns.Annotations, v1beta1.AnnotationTenantUID)
		had = true
	}
	return had
}

// disown takes owner references to the Tenant off an object in memory and
// reports whether there were any.
func disown(t *v1beta1.Tenant, o metav1.Object) bool {
	return removeOwners(o, func(ref metav1.OwnerReference) bool { return ref.UID == t.UID })
}

// removeOwners takes the owner references that match off an object in memory and
// reports whether there were any.
func removeOwners(o metav1.Object, matches func(metav1.OwnerReference) bool) bool {
	refs := o.GetOwnerReferences()
	kept := slices.DeleteFunc(slices.Clone(refs), matches)
	if len(kept) == len(refs) {
		return false
	}
	if len(kept) == 0 {
		kept = nil
	}
	o.SetOwnerReferences(kept)
	return true
}

// ownerIndex is the place of the first owner reference to the Tenant, -1 if none.
func ownerIndex(t *v1beta1.Tenant, o metav1.Object) int {
	return slices.IndexFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == t.UID })
}

// subjects are the admins in the words of RBAC.
func subjects(t *v1beta1.Tenant) []rbacv1.Subject {
	out := make([]rbacv1.Subject, 0, len(t.Spec.Admins))
	for _, admin := range t.Spec.Admins {
		s := rbacv1.Subject{Kind: string(admin.Kind), Name: admin.Name, Namespace: admin.Namespace}
		if admin.Kind != v1beta1.SubjectServiceAccount {
			s.APIGroup = rbacv1.GroupName
		}
		out = append(out, s)
	}
	return out
}

func subjectConfigs(t *v1beta1.Tenant) []*rbacv1ac.SubjectApplyConfiguration {
	var out []*rbacv1ac.SubjectApplyConfiguration
	for _, s := range subjects(t) {
		c := rbacv1ac.Subject().WithKind(s.Kind).WithName(s.Name)
		if s.APIGroup != "" {
			c.WithAPIGroup(s.APIGroup)
		}
		if s.Namespace != "" {
			c.WithNamespace(s.Namespace)
		}
		out = append(out, c)
	}
	return out
}

func roleRefConfig(name string) *rbacv1ac.RoleRefApplyConfiguration {
	return rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(name)
}

// readerRules let the admins see their own Tenant, and only see it: a right to
// change it would be a right to make namespaces.
func readerRules(t *v1beta1.Tenant) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups:     []string{v1beta1.GroupVersion.Group},
		Resources:     []string{"tenants"},
		ResourceNames: []string{t.Name},
		Verbs:         []string{"get"},
	}}
}
