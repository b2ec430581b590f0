package v1beta1

// Condition types that every kind carries, with the meaning kstatus gives them.
const (
	// ConditionReady is True when the object's desired state has been reached
	// and was seen to hold at the last look.
	ConditionReady = "Ready"
	// ConditionStalled is True when the controller cannot go on until a person
	// changes something; it is absent otherwise.
	ConditionStalled = "Stalled"
)

// Marks the operator puts on what it makes. The label finds, the annotation
// proves: only the UID decides who owns.
const (
	// LabelTenant carries the name of the Tenant an object was made for.
	LabelTenant = "leasehold.dev/tenant"
	// LabelManagedBy is the recommended label that names the managing tool.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedByValue is the value of LabelManagedBy on everything we make.
	ManagedByValue = "leasehold"
	// AnnotationTenantUID carries the UID of the Tenant that created an object.
	AnnotationTenantUID = "leasehold.dev/tenant-uid"
	// TenantFinalizer holds a Tenant until its namespaces are gone or released.
	TenantFinalizer = "leasehold.dev/tenant"
)
