// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SubjectKind is the kind of an admin.
// +kubebuilder:validation:Enum=User;Group;ServiceAccount
type SubjectKind string

// The kinds an admin can be of, as RBAC names them.
const (
	SubjectUser           SubjectKind = "User"
	SubjectGroup          SubjectKind = "Group"
	SubjectServiceAccount SubjectKind = "ServiceAccount"
)

// NamespaceDeletionPolicy defines what happens to a namespace that no longer belongs to
// its Tenant.
// +kubebuilder:validation:Enum=Delete;Retain
type NamespaceDeletionPolicy string

const (
	// NamespaceDelete deletes the namespace with everything in it.
	NamespaceDelete NamespaceDeletionPolicy = "Delete"
	// NamespaceRetain keeps the namespace with everything in it, except the ownership labels
	// and the RoleBinding of the admins.
	NamespaceRetain NamespaceDeletionPolicy = "Retain"
)

// Subject is a user, group or service account that administers the Tenant's namespaces.
// Example: {kind: ServiceAccount, name: deployer, namespace: payments-dev}
// +kubebuilder:validation:XValidation:rule="(self.kind == 'ServiceAccount') == has(self.__namespace__)",message="namespace must be set for kind ServiceAccount and must not be set for kinds User and Group"
// +kubebuilder:validation:XValidation:rule="self.kind == 'ServiceAccount' || !self.name.startsWith('system:')",message="name must not start with 'system:' for kinds User and Group, because Kubernetes reserves such names; for a service account, set kind to ServiceAccount and set name and namespace"
// +kubebuilder:validation:XValidation:rule="!self.name.matches('^[[:space:]]|[[:space:]]$')",message="name must not start or end with white space"
// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || self.name.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name of a ServiceAccount must consist of lower case letters, digits, '-' and '.', and must start and end with a letter or digit"
type Subject struct {
	// kind is User, Group or ServiceAccount.
	// Example: Group
	// +required
	Kind SubjectKind `json:"kind,omitempty"`

	// name is the name of the subject, as the API server's authentication reports it.
	// Example: payments-team
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace is the namespace of the ServiceAccount. It must not be set for other kinds.
	// Example: payments-dev
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
}

// NamespaceSuffix is the part of a namespace's name that follows the prefix.
// Example: dev
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type NamespaceSuffix string

// TenantSpec defines the namespaces and the admins of a team.
// +kubebuilder:validation:XValidation:rule="!has(self.namespacePrefix) || self.namespaces.all(n, size(self.namespacePrefix) + size(n) <= 63)",fieldPath=".namespaces",message="namespacePrefix and each name in namespaces together must be at most 63 characters long; shorten the prefix or the name"
// +kubebuilder:validation:XValidation:rule="!has(self.namespacePrefix) || self.namespaces.all(n, !(self.namespacePrefix + n).startsWith('kube-') && !(self.namespacePrefix + n).startsWith('openshift-') && (self.namespacePrefix + n) != 'default')",fieldPath=".namespaces",message="namespacePrefix and a name in namespaces together must not be 'default' or start with 'kube-' or 'openshift-', because such names are reserved; choose another prefix or name"
type TenantSpec struct {
	// namespacePrefix is the first part of the name of each namespace; a name in namespaces
	// is the rest. Defaults to the name of the Tenant and a hyphen. Immutable.
	// Example: payments-
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:Pattern=`^[a-z0-9][-a-z0-9]*$`
	NamespacePrefix string `json:"namespacePrefix,omitempty"`

	// namespaces are the names of the Tenant's namespaces, without the prefix.
	// Example: [dev, prod]
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Namespaces []NamespaceSuffix `json:"namespaces,omitempty"`

	// admins are the users, groups and service accounts that administer the namespaces. One
	// RoleBinding in each namespace binds them to the ClusterRole that the operator's flag
	// --tenant-admin-cluster-role names.
	// Example: [{kind: Group, name: payments-team}]
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Admins []Subject `json:"admins,omitempty"`

	// namespaceDeletionPolicy defines what happens to a namespace when its name is removed
	// from the spec or the Tenant is deleted. Delete deletes the namespace with everything
	// in it. Retain keeps the namespace, and removes the ownership labels and the
	// RoleBinding of the admins.
	// Example: Retain
	// +optional
	// +kubebuilder:default=Delete
	NamespaceDeletionPolicy NamespaceDeletionPolicy `json:"namespaceDeletionPolicy,omitempty"`
}

// TenantNamespace is the state of one namespace.
type TenantNamespace struct {
	// name is the full name of the namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// uid is the UID of the namespace if this Tenant owns it, and empty otherwise.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// reason is the state of the namespace: Reconciled, Pending, NamespaceTerminating,
	// NamespaceConflict, ChildConflict, RBACForbidden, AdmissionDenied, QuotaExceeded,
	// InvalidSpec or ReconcileFailed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
}

// MaxAdmins is the largest number of admins of a Tenant.
const MaxAdmins = 32

// MaxNamespaces is the largest number of namespaces in a Tenant's spec.
const MaxNamespaces = 64

// MaxConditions is the largest number of conditions in a Tenant's status.
const MaxConditions = 8

// MaxStatusNamespaces bounds status.namespaces: the namespaces of the spec and those
// that are being deleted or released.
const MaxStatusNamespaces = 256

// TenantStatus is the state that the operator last observed.
type TenantStatus struct {
	// conditions contain Ready. Stalled, Paused and DriftCorrected are present only while
	// they apply.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status describes. It is -1
	// before the first reconcile.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastHandledReconcileAt is the last value of the annotation leasehold.dev/requested-at
	// that the operator handled.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// namespaces lists every namespace that is in the spec or that the Tenant still owns.
	// The operator adds a name before it creates the namespace. After a crash, the status
	// therefore lists every namespace that the operator may have created.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Namespaces []TenantNamespace `json:"namespaces,omitempty"`
}

// Tenant is a set of namespaces for a team, and the permissions of the team's admins in
// them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=leasehold
// +kubebuilder:printcolumn:name="Prefix",type=string,JSONPath=`.spec.namespacePrefix`
// +kubebuilder:printcolumn:name="Namespaces",type=string,JSONPath=`.spec.namespaces`
// +kubebuilder:printcolumn:name="Admin",type=string,JSONPath=`.spec.admins[0].name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 50 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 50 characters long, consist of lower case letters, digits and '-', and start and end with a letter or digit"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.namespacePrefix) ? self.spec.namespacePrefix : self.metadata.name + '-') == (has(oldSelf.spec.namespacePrefix) ? oldSelf.spec.namespacePrefix : oldSelf.metadata.name + '-')",fieldPath=".spec.namespacePrefix",reason=FieldValueForbidden,message="spec.namespacePrefix is immutable; create another Tenant for the new prefix"
type Tenant struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec defines the namespaces and the admins.
	// Example: {namespaces: [dev, prod], admins: [{kind: Group, name: payments-team}]}
	// +required
	Spec TenantSpec `json:"spec"`

	// status is the state that the operator last observed.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status TenantStatus `json:"status,omitempty,omitzero"`
}

// TenantList is a list of Tenants.
//
// +kubebuilder:object:root=true
type TenantList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Tenants.
	Items []Tenant `json:"items"`
}

// Reasons that only the conditions of a Tenant and its namespaces have.
const (
	ReasonPending              = "Pending"
	ReasonNamespaceConflict    = "NamespaceConflict"
	ReasonNamespaceTerminating = "NamespaceTerminating"
	ReasonAdminRoleNotFound    = "AdminRoleNotFound"
	ReasonDeleting             = "Deleting"
)

// Reasons of the events about a Tenant.
const (
	// EventUpdated (Normal): the operator carried out a change and the Tenant is Ready.
	EventUpdated = "Updated"
	// EventFailed (Warning): the Tenant could not be reconciled.
	EventFailed = "Failed"
	// EventNamespaceCreated (Normal): a namespace was created.
	EventNamespaceCreated = "NamespaceCreated"
	// EventNamespaceDeleted (Normal): the deletion of a namespace was requested.
	EventNamespaceDeleted = "NamespaceDeleted"
	// EventNamespaceRetained (Normal): a namespace was released and kept.
	EventNamespaceRetained = "NamespaceRetained"
	// EventAdminBindingRepaired (Warning): the admins' RoleBinding was changed or missing,
	// and the operator restored it.
	EventAdminBindingRepaired = "AdminBindingRepaired"
)
