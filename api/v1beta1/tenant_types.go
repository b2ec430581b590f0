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

// NamespaceDeletionPolicy is what happens to a namespace that leaves its Tenant.
// +kubebuilder:validation:Enum=Delete;Retain
type NamespaceDeletionPolicy string

const (
	// NamespaceDelete deletes the namespace with everything in it.
	NamespaceDelete NamespaceDeletionPolicy = "Delete"
	// NamespaceRetain removes the ownership labels and the admins' rights, and keeps
	// the namespace otherwise as it is.
	NamespaceRetain NamespaceDeletionPolicy = "Retain"
)

// Subject is a user, group or service account that administers the Tenant's namespaces.
// Example: {kind: ServiceAccount, name: deployer, namespace: payments-dev}
// +kubebuilder:validation:XValidation:rule="(self.kind == 'ServiceAccount') == has(self.__namespace__)",message="namespace must be set for kind ServiceAccount and must not be set for kinds User and Group"
// +kubebuilder:validation:XValidation:rule="self.kind == 'ServiceAccount' || !self.name.startsWith('system:')",message="name must not start with 'system:' for kinds User and Group: those belong to Kubernetes; name a ServiceAccount by kind ServiceAccount with name and namespace"
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

	// namespace is the namespace of the ServiceAccount. Other kinds have none.
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

// TenantSpec is the desired namespaces and admins of a team.
// +kubebuilder:validation:XValidation:rule="!has(self.namespacePrefix) || self.namespaces.all(n, size(self.namespacePrefix) + size(n) <= 63)",fieldPath=".namespaces",message="namespacePrefix and each name in namespaces together must be at most 63 characters long; shorten the prefix or the name"
// +kubebuilder:validation:XValidation:rule="!has(self.namespacePrefix) || self.namespaces.all(n, !(self.namespacePrefix + n).startsWith('kube-') && !(self.namespacePrefix + n).startsWith('openshift-') && (self.namespacePrefix + n) != 'default')",fieldPath=".namespaces",message="namespacePrefix and a name in namespaces together must not be 'default' nor start with 'kube-' or 'openshift-': those are reserved; choose another prefix or name"
type TenantSpec struct {
	// namespacePrefix and a name in namespaces together are the full name of a
	// namespace. The default is the Tenant's name and a hyphen. It is immutable.
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

	// admins administer the namespaces. One RoleBinding in each namespace binds all
	// of them to the ClusterRole of the operator's flag --tenant-admin-cluster-role.
	// Example: [{kind: Group, name: payments-team}]
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Admins []Subject `json:"admins,omitempty"`

	// namespaceDeletionPolicy applies to a namespace whose name leaves the spec, or
	// whose Tenant is deleted. Delete removes the namespace with everything in it.
	// Retain keeps it, and removes the ownership labels and the admins' rights.
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

	// reason is the state of the namespace in one word: Reconciled, Pending,
	// NamespaceTerminating, NamespaceConflict, ChildConflict, RBACForbidden,
	// AdmissionDenied, QuotaExceeded, InvalidSpec or ReconcileFailed.
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

// TenantStatus is what the operator observed last.
type TenantStatus struct {
	// conditions are Ready, and Stalled, Paused and DriftCorrected while they apply.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes, at first -1.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastHandledReconcileAt is the value of the annotation leasehold.dev/requested-at that the
	// operator handled last.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// namespaces lists every namespace that is in the spec or that the Tenant still
	// owns. The operator records a name here before it creates the namespace, so after
	// a crash the status lists every namespace that may be its own.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Namespaces []TenantNamespace `json:"namespaces,omitempty"`
}

// Tenant is a team's set of namespaces and the rights of its admins in them.
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
// +kubebuilder:validation:XValidation:rule="(has(self.spec.namespacePrefix) ? self.spec.namespacePrefix : self.metadata.name + '-') == (has(oldSelf.spec.namespacePrefix) ? oldSelf.spec.namespacePrefix : oldSelf.metadata.name + '-')",fieldPath=".spec.namespacePrefix",reason=FieldValueForbidden,message="spec.namespacePrefix field should not be changed: create another Tenant for the new prefix"
type Tenant struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired namespaces and admins.
	// Example: {namespaces: [dev, prod], admins: [{kind: Group, name: payments-team}]}
	// +required
	Spec TenantSpec `json:"spec"`

	// status is what the operator observed last.
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
	// EventUpdated (Normal): a change was carried out and the Tenant is Ready.
	EventUpdated = "Updated"
	// EventFailed (Warning): the Tenant could not be reconciled.
	EventFailed = "Failed"
	// EventNamespaceCreated (Normal): a namespace was created.
	EventNamespaceCreated = "NamespaceCreated"
	// EventNamespaceDeleted (Normal): the deletion of a namespace was requested.
	EventNamespaceDeleted = "NamespaceDeleted"
	// EventNamespaceRetained (Normal): a namespace was released and kept.
	EventNamespaceRetained = "NamespaceRetained"
	// EventAdminBindingRepaired (Warning): the admins' rights had been changed and were put back.
	EventAdminBindingRepaired = "AdminBindingRepaired"
)
