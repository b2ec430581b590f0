// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddressingStyle is the place of the bucket's name in a request.
// +kubebuilder:validation:Enum=Path;VirtualHost
type AddressingStyle string

const (
	// AddressingPath puts the bucket's name into the path.
	AddressingPath AddressingStyle = "Path"
	// AddressingVirtualHost puts the bucket's name before the endpoint's host.
	AddressingVirtualHost AddressingStyle = "VirtualHost"
)

// BucketManagementPolicy is what the operator may do to the bucket.
// +kubebuilder:validation:Enum=Observe;Manage
type BucketManagementPolicy string

const (
	// BucketObserve only probes: the operator sends no request that changes anything.
	BucketObserve BucketManagementPolicy = "Observe"
	// BucketManage also creates the bucket, and applies the deletion policy to it.
	BucketManage BucketManagementPolicy = "Manage"
)

// BucketDeletionPolicy is what happens to a managed bucket when its StorageBucket
// is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type BucketDeletionPolicy string

const (
	// BucketRetain keeps the bucket, and the tag that names its StorageBucket.
	BucketRetain BucketDeletionPolicy = "Retain"
	// BucketDelete removes the bucket if it is empty, and waits until it is.
	BucketDelete BucketDeletionPolicy = "Delete"
)

// SecretReference names a Secret in the namespace of the object that refers to it.
type SecretReference struct {
	// name is the name of the Secret.
	// Example: s3-keys
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
}

// ConfigMapKeyReference names a key of a ConfigMap in the namespace of the
// object that refers to it.
type ConfigMapKeyReference struct {
	// name is the name of the ConfigMap.
	// Example: s3-ca
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// key is the key in the ConfigMap's data.
	// Example: ca.crt
	// +optional
	// +kubebuilder:default=ca.crt
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// ProbeSpec is how often the operator probes the bucket, and when it counts as failed.
// +kubebuilder:validation:XValidation:rule="self.timeoutSeconds <= self.periodSeconds",message="timeoutSeconds must be less than or equal to periodSeconds",fieldPath=".timeoutSeconds"
type ProbeSpec struct {
	// periodSeconds is the time from one probe to the next. The operator adds up to
	// a tenth of it to spread the probes.
	// Example: 60
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is how long all requests of one probe may take together. They
	// include the creation or the removal of the bucket.
	// Example: 10
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// failureThreshold is how many probes in a row must fail before Ready becomes
	// False. A missing bucket, missing credentials, a forbidden endpoint, a bucket of
	// another owner and a service without tags make Ready False at the first probe.
	// Example: 3
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// StorageBucketSpec describes a bucket outside the cluster.
// +kubebuilder:validation:XValidation:rule="self.managementPolicy == oldSelf.managementPolicy",fieldPath=".managementPolicy",reason=FieldValueForbidden,message="managementPolicy cannot be changed: a bucket that exists is never taken over; delete this StorageBucket and create another"
// +kubebuilder:validation:XValidation:rule="self.managementPolicy != 'Manage' || (self.endpoint == oldSelf.endpoint && self.region == oldSelf.region)",fieldPath=".endpoint",reason=FieldValueForbidden,message="endpoint and region cannot be changed while managementPolicy is Manage: the bucket would be left behind; create another StorageBucket"
// +kubebuilder:validation:XValidation:rule="self.addressingStyle != 'VirtualHost' || !self.endpoint.matches('^https?://([[]|[0-9.]+(:[0-9]*)?/?$)')",fieldPath=".addressingStyle",message="addressingStyle must be Path for an endpoint that is an IP address"
// +kubebuilder:validation:XValidation:rule="self.addressingStyle != 'VirtualHost' || !self.endpoint.startsWith('https:') || !self.bucketName.contains('.')",fieldPath=".addressingStyle",message="addressingStyle must be Path for an https endpoint and a bucketName with dots: no certificate is for such a host"
// +kubebuilder:validation:XValidation:rule="!self.endpoint.matches('^https?://' + self.bucketName + '[.](s3|oss|cos|obs)[.-]')",fieldPath=".endpoint",message="endpoint must not begin with the bucket's name; set endpoint to the host of the service and addressingStyle to VirtualHost"
// +kubebuilder:validation:XValidation:rule="!has(self.caBundleRef) || self.endpoint.startsWith('https://')",fieldPath=".caBundleRef",message="caBundleRef must not be set for an endpoint without https"
// +kubebuilder:validation:XValidation:rule="self.managementPolicy == 'Manage' || self.deletionPolicy == 'Retain'",fieldPath=".deletionPolicy",message="deletionPolicy Delete needs managementPolicy Manage: what is only observed is never deleted"
type StorageBucketSpec struct {
	// bucketName is the name of the bucket. It is immutable.
	// Example: team-reports
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="bucketName cannot be changed: create another StorageBucket for the other bucket"
	// +kubebuilder:validation:XValidation:rule="!self.contains('..') && !self.contains('.-') && !self.contains('-.')",message="bucketName must not contain '..', '.-' or '-.'"
	// +kubebuilder:validation:XValidation:rule="!isIP(self)",message="bucketName must not be an IP address"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('xn--')",message="bucketName must not start with 'xn--'"
	BucketName string `json:"bucketName,omitempty"`

	// endpoint is the URL of the S3 service. The operator connects to it from its
	// own Pod. It refuses loopback, link-local, metadata services, itself and the
	// address by which it reaches the API server, but not Services, Pods and nodes.
	// The operator's flags --endpoint-allow-cidr and --endpoint-deny-cidr change that.
	// Example: https://s3.example.com
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.matches('^https?://') && url(self).getHostname() != ''",message="endpoint must be a URL that starts with http:// or https:// and names a host"
	// +kubebuilder:validation:XValidation:rule="!isURL(self) || self.contains('@') || (self.matches('^[a-zA-Z]+://([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[1-9][0-9]{0,4})?([/?#].*)?$') && (url(self).getPort() == '' || int(url(self).getPort()) <= 65535))",message="endpoint must name a host of letters, digits, '.', '-' and '_', or an address, and if a port, then one of 1 to 65535"
	// +kubebuilder:validation:XValidation:rule="!isURL(self) || (!self.contains('@') && !self.contains('?') && !self.contains('#') && url(self).getEscapedPath() in ['', '/'])",message="endpoint must have no user, path, query or fragment: a service below a path is not supported, and bucketName names the bucket"
	Endpoint string `json:"endpoint,omitempty"`

	// region is the region that requests are signed for.
	// Example: eu-central-1
	// +optional
	// +kubebuilder:default=us-east-1
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][-_A-Za-z0-9]*$`
	Region string `json:"region,omitempty"`

	// addressingStyle is Path if the bucket's name is in the path of a request, and
	// VirtualHost if it precedes the endpoint's host.
	// Example: VirtualHost
	// +optional
	// +kubebuilder:default=Path
	AddressingStyle AddressingStyle `json:"addressingStyle,omitempty"`

	// credentialsSecretRef names the Secret with the keys AWS_ACCESS_KEY_ID,
	// AWS_SECRET_ACCESS_KEY and, optionally, AWS_SESSION_TOKEN. Each probe reads it,
	// so a rotation takes effect at the next probe.
	// Example: {name: s3-keys}
	// +required
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef,omitzero"`

	// caBundleRef names the PEM certificates of the authorities that may have signed
	// the endpoint's certificate, in place of those of the system.
	// Example: {name: s3-ca, key: ca.crt}
	// +optional
	CABundleRef *ConfigMapKeyReference `json:"caBundleRef,omitempty"`

	// managementPolicy Observe only probes the bucket. Manage also creates it, with
	// a tag that has the UID of this StorageBucket. An existing bucket is never
	// adopted. The policy is immutable.
	// Example: Manage
	// +optional
	// +kubebuilder:default=Observe
	ManagementPolicy BucketManagementPolicy `json:"managementPolicy,omitempty"`

	// deletionPolicy applies to a managed bucket when the StorageBucket is deleted.
	// Retain keeps the bucket. Delete removes it once it is empty, and never empties it.
	// kubectl delete --cascade=orphan keeps the bucket in either case.
	// Example: Retain
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy BucketDeletionPolicy `json:"deletionPolicy,omitempty"`

	// probe is how often the operator probes the bucket, and when it counts as failed.
	// Example: {periodSeconds: 60, timeoutSeconds: 10, failureThreshold: 3}
	// +optional
	// +kubebuilder:default={periodSeconds: 60, timeoutSeconds: 10, failureThreshold: 3}
	Probe ProbeSpec `json:"probe,omitzero"`
}

// BucketProvisioning is how far the operator has come in creating the bucket.
// +kubebuilder:validation:Enum=Intended;Created
type BucketProvisioning string

const (
	// BucketIntended means that the operator may have sent a request that creates the
	// bucket, and has not seen yet whether there is one with its tag.
	BucketIntended BucketProvisioning = "Intended"
	// BucketCreated means that the operator saw the bucket with the tag of this StorageBucket.
	BucketCreated BucketProvisioning = "Created"
)

// StorageBucketStatus is what the operator observed last. It is written when the
// result of a probe changes, and otherwise at most once in five minutes.
type StorageBucketStatus struct {
	// conditions are Ready, and Stalled and Paused while they apply.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes, at first -1.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastProbeTime is when the bucket was last probed, as of this status.
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`

	// lastSuccessTime is when a probe last succeeded, as of this status.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`

	// consecutiveFailures counts the probes that have failed since the last one
	// that succeeded, as of this status.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`

	// observedSecretResourceVersion is the version of the Secret that the last
	// probe used; empty if there was none.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObservedSecretResourceVersion string `json:"observedSecretResourceVersion,omitempty"`

	// provisioning is how far the operator has come in creating a managed bucket. It
	// is Intended before the first request that could create the bucket, so after
	// a crash the status shows that there may be one.
	// +optional
	Provisioning BucketProvisioning `json:"provisioning,omitempty"`

	// lastHandledReconcileAt is the value of the annotation leasehold.dev/requested-at
	// that was handled last.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
}

// StorageBucket is a bucket of S3-compatible storage outside the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=leasehold,shortName=sbkt
// +kubebuilder:printcolumn:name="Bucket",type=string,JSONPath=`.spec.bucketName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="LastProbe",type=date,JSONPath=`.status.lastProbeTime`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.managementPolicy`,priority=1
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type StorageBucket struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec describes the bucket.
	// Example: {bucketName: team-reports, endpoint: "https://s3.example.com", credentialsSecretRef: {name: s3-keys}}
	// +required
	Spec StorageBucketSpec `json:"spec"`

	// status is what the operator observed last.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status StorageBucketStatus `json:"status,omitempty,omitzero"`
}

// StorageBucketList is a list of StorageBuckets.
//
// +kubebuilder:object:root=true
type StorageBucketList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the StorageBuckets.
	Items []StorageBucket `json:"items"`
}

// Keys of a StorageBucket's Secret, as the tools of S3 name them.
//
//nolint:gosec // names of keys and no credentials
const (
	SecretKeyAccessKeyID     = "AWS_ACCESS_KEY_ID"
	SecretKeySecretAccessKey = "AWS_SECRET_ACCESS_KEY"
	SecretKeySessionToken    = "AWS_SESSION_TOKEN"
)

const (
	// StorageBucketFinalizer blocks the deletion of a managed StorageBucket until its
	// bucket is removed or released. One that only observes has no finalizer.
	StorageBucketFinalizer = "leasehold.dev/storagebucket"
	// BucketTagOwner is the ownership tag of a bucket. Its value is the UID of the
	// StorageBucket that created it.
	BucketTagOwner = "leasehold.dev/storagebucket-uid"
)

// Reasons of the Ready condition of a StorageBucket: the result of a probe.
const (
	ReasonProbeSucceeded        = "ProbeSucceeded"
	ReasonProbePending          = "ProbePending"
	ReasonBucketNotFound        = "BucketNotFound"
	ReasonAccessDenied          = "AccessDenied"
	ReasonInvalidCredentials    = "InvalidCredentials"
	ReasonCredentialsNotFound   = "CredentialsNotFound"
	ReasonRegionMismatch        = "RegionMismatch"
	ReasonEndpointUnreachable   = "EndpointUnreachable"
	ReasonEndpointForbidden     = "EndpointForbidden"
	ReasonTLSVerificationFailed = "TLSVerificationFailed"
	ReasonProbeTimeout          = "ProbeTimeout"
	ReasonServerError           = "ServerError"
	ReasonThrottled             = "Throttled"

	// Of managed buckets only.

	// ReasonCreating: the bucket is being created.
	ReasonCreating = "Creating"
	// ReasonBucketConflict: the bucket exists without the tag of this StorageBucket.
	ReasonBucketConflict = "BucketConflict"
	// ReasonBucketNotEmpty: the bucket must be removed and contains objects.
	ReasonBucketNotEmpty = "BucketNotEmpty"
	// ReasonTagsNotSupported: the service has no tags of buckets, so the operator manages none there.
	ReasonTagsNotSupported = "TagsNotSupported"
)

// Reasons of the events about a StorageBucket.
const (
	// EventBucketHealthy (Normal): the bucket can be used, and could not before.
	EventBucketHealthy = "BucketHealthy"
	// EventBucketUnhealthy (Warning): the bucket cannot be used, and could before,
	// or cannot for another reason; or the operator cannot probe it.
	EventBucketUnhealthy = "BucketUnhealthy"
	// EventCredentialsRejected (Warning): the credentials are missing or wrong.
	EventCredentialsRejected = "CredentialsRejected"
	// EventEndpointForbidden (Warning): the endpoint's address may not be dialled.
	EventEndpointForbidden = "EndpointForbidden"
	// EventBucketCreated (Normal): a managed bucket was created.
	EventBucketCreated = "BucketCreated"
	// EventBucketDeleted (Normal): a managed bucket was removed.
	EventBucketDeleted = "BucketDeleted"
	// EventBucketRetained: a managed bucket was released and kept. Normal under
	// deletionPolicy Retain; a Warning where Delete could not be carried out.
	EventBucketRetained = "BucketRetained"
	// EventBucketConflict (Warning): the bucket exists without the tag of this StorageBucket.
	EventBucketConflict = "BucketConflict"
	// EventBucketNotEmpty (Warning): the bucket cannot be removed because it contains objects.
	EventBucketNotEmpty = "BucketNotEmpty"
)
