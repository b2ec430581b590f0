// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types that every kind carries, with the meaning kstatus gives them.
const (
	// ConditionReady is True when the last observation found the desired state.
	ConditionReady = "Ready"
	// ConditionStalled is True when reconciliation makes no progress until a user
	// changes something, and absent otherwise.
	ConditionStalled = "Stalled"
	// ConditionPaused is True while AnnotationPaused keeps the operator from writing
	// anything for the object except its status, and absent otherwise.
	ConditionPaused = "Paused"
	// ConditionDriftCorrected is True after the operator has restored fields of a child that
	// another client had changed. Its message names the fields. It is absent again after the
	// next change of the spec.
	ConditionDriftCorrected = "DriftCorrected"
)

// Reasons of the conditions Paused and DriftCorrected.
const (
	ReasonPaused         = "Paused"
	ReasonDriftCorrected = "DriftCorrected"
)

// Reasons of Ready that several kinds have.
const (
	ReasonReconciled      = "Reconciled"
	ReasonProgressing     = "Progressing"
	ReasonChildConflict   = "ChildConflict"
	ReasonRBACForbidden   = "RBACForbidden"
	ReasonAdmissionDenied = "AdmissionDenied"
	ReasonQuotaExceeded   = "QuotaExceeded"
	ReasonInvalidSpec     = "InvalidSpec"
	ReasonReconcileFailed = "ReconcileFailed"
)

// EventDriftCorrected (Normal) is the reason of the event for a child that another client had changed
// or deleted, and that the operator restored.
const EventDriftCorrected = "DriftCorrected"

// Annotations by which users direct the operator. All kinds have them.
const (
	// AnnotationPaused pauses the reconciliation of an object, with any value except
	// "false". The operator then writes nothing but the status, even while the object is
	// being deleted.
	AnnotationPaused = "leasehold.dev/paused"
	// AnnotationRequestedAt requests a reconcile, or a probe, each time its value changes.
	// The status contains the last value that was handled, or its hash if it is longer than
	// 128 characters.
	AnnotationRequestedAt = "leasehold.dev/requested-at"
)

// Ownership labels and annotations of the objects that the operator creates. The
// label selects objects; only the UID in the annotation proves ownership.
const (
	// LabelTenant is the name of the Tenant that an object was created for.
	LabelTenant = "leasehold.dev/tenant"
	// LabelManagedBy is the recommended label that names the managing tool.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedByValue is the value of LabelManagedBy on every object that the operator creates.
	ManagedByValue = "leasehold"
	// AnnotationTenantUID is the UID of the Tenant that created an object.
	AnnotationTenantUID = "leasehold.dev/tenant-uid"
	// TenantFinalizer blocks the deletion of a Tenant until its namespaces are deleted or
	// released.
	TenantFinalizer = "leasehold.dev/tenant"
)
