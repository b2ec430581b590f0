// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddressingStyle defines where the URL of a request contains the bucket name.
// +kubebuilder:validation:Enum=Path;VirtualHost
type AddressingStyle string

const (
	// AddressingPath puts the bucket name in the path of the URL.
	AddressingPath AddressingStyle = "Path"
	// AddressingVirtualHost puts the bucket name before the host name of the endpoint.
	AddressingVirtualHost AddressingStyle = "VirtualHost"
)

// BucketManagementPolicy defines what the operator may do to the bucket.
// +kubebuilder:validation:Enum=Observe;Manage
type BucketManagementPolicy string

const (
	// BucketObserve only probes the bucket. The operator sends no request that changes
	// anything.
	BucketObserve BucketManagementPolicy = "Observe"
	// BucketManage also creates the bucket, and applies the deletion policy to it.
	BucketManage BucketManagementPolicy = "Manage"
)

// BucketDeletionPolicy defines what happens to a managed bucket when its StorageBucket
// is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type BucketDeletionPolicy string

const (
	// BucketRetain keeps the bucket, and the tag that names its StorageBucket.
	BucketRetain BucketDeletionPolicy = "Retain"
	// BucketDelete deletes the bucket if it is empty, and otherwise waits until it is empty.
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

// ProbeSpec defines the interval, the timeout and the failure threshold of the probes.
// +kubebuilder:validation:XValidation:rule="self.timeoutSeconds <= self.periodSeconds",message="timeoutSeconds must be less than or equal to periodSeconds",fieldPath=".timeoutSeconds"
type ProbeSpec struct {
	// periodSeconds is the time between two probes. The operator adds up to 10 percent, to
	// spread the probes of all StorageBuckets.
	// Example: 60
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is the time limit for all requests of one probe together. They include
	// the requests that create or delete the bucket.
	// Example: 10
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// failureThreshold is the number of consecutive failed probes after which Ready becomes
	// False. The first failed probe is enough if the bucket or the credentials are missing,
	// the endpoint is forbidden, the bucket belongs to another owner, or the service does
	// not support bucket tags.
	// Example: 3
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// StorageBucketSpec describes a bucket outside the cluster.
// +kubebuilder:validation:XValidation:rule="self.managementPolicy == oldSelf.managementPolicy",fieldPath=".managementPolicy",reason=FieldValueForbidden,message="managementPolicy is immutable, because the operator never adopts an existing bucket; delete this StorageBucket and create another one"
// +kubebuilder:validation:XValidation:rule="self.managementPolicy != 'Manage' || (self.endpoint == oldSelf.endpoint && self.region == oldSelf.region)",fieldPath=".endpoint",reason=FieldValueForbidden,message="endpoint and region are immutable while managementPolicy is Manage, because the bucket would remain at the previous endpoint; create another StorageBucket"
// +kubebuilder:validation:XValidation:rule="self.addressingStyle != 'VirtualHost' || !self.endpoint.matches('^https?://([[]|[0-9.]+(:[0-9]*)?/?$)')",fieldPath=".addressingStyle",message="addressingStyle must be Path if the host of endpoint is an IP address"
// +kubebuilder:validation:XValidation:rule="self.addressingStyle != 'VirtualHost' || !self.endpoint.startsWith('https:') || !self.bucketName.contains('.')",fieldPath=".addressingStyle",message="addressingStyle must be Path if endpoint starts with https:// and bucketName contains dots, because a wildcard certificate does not match such a host name"
// +kubebuilder:validation:XValidation:rule="!self.endpoint.matches('^https?://' + self.bucketName + '[.](s3|oss|cos|obs)[.-]')",fieldPath=".endpoint",message="endpoint must not begin with the bucket's name; set endpoint to the host of the service and addressingStyle to VirtualHost"
// +kubebuilder:validation:XValidation:rule="!has(self.caBundleRef) || self.endpoint.startsWith('https://')",fieldPath=".caBundleRef",message="caBundleRef must not be set unless endpoint starts with https://"
// +kubebuilder:validation:XValidation:rule="self.managementPolicy == 'Manage' || self.deletionPolicy == 'Retain'",fieldPath=".deletionPolicy",message="deletionPolicy Delete requires managementPolicy Manage, because the operator never deletes a bucket that it only observes"
type StorageBucketSpec struct {
	// bucketName is the name of the bucket. It is immutable.
	// Example: team-reports
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="bucketName is immutable; create another StorageBucket for the other bucket"
	// +kubebuilder:validation:XValidation:rule="!self.contains('..') && !self.contains('.-') && !self.contains('-.')",message="bucketName must not contain '..', '.-' or '-.'"
	// +kubebuilder:validation:XValidation:rule="!isIP(self)",message="bucketName must not be an IP address"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('xn--')",message="bucketName must not start with 'xn--'"
	BucketName string `json:"bucketName,omitempty"`

	// endpoint is the URL of the S3 service. The operator connects to it from its own Pod.
	// By default, the operator refuses loopback and link-local addresses, metadata services,
	// its own addresses, and the address at which it reaches the API server. It does not
	// refuse Services, Pods and nodes. The operator's flags --endpoint-allow-cidr and
	// --endpoint-deny-cidr change these rules.
	// Example: https://s3.example.com
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && self.matches('^https?://') && url(self).getHostname() != ''",message="endpoint must be a URL that starts with http:// or https:// and contains a host"
	// +kubebuilder:validation:XValidation:rule="!isURL(self) || self.contains('@') || (self.matches('^[a-zA-Z]+://([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[1-9][0-9]{0,4})?([/?#].*)?$') && (url(self).getPort() == '' || int(url(self).getPort()) <= 65535))",message="the host in endpoint must be an IP address or consist of letters, digits, '.', '-' and '_', and the port, if there is one, must be between 1 and 65535"
	// +kubebuilder:validation:XValidation:rule="!isURL(self) || (!self.contains('@') && !self.contains('?') && !self.contains('#') && url(self).getEscapedPath() in ['', '/'])",message="endpoint must not contain a user, path, query or fragment, because a service below a path is not supported; set the name of the bucket in bucketName"
	Endpoint string `json:"endpoint,omitempty"`

	// region is the region for which requests are signed.
	// Example: eu-central-1
	// +optional
	// +kubebuilder:default=us-east-1
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][-_A-Za-z0-9]*$`
	Region string `json:"region,omitempty"`

	// addressingStyle defines where the URL of a request contains the bucket name. Path puts
	// it in the path. VirtualHost puts it before the host name of the endpoint.
	// Example: VirtualHost
	// +optional
	// +kubebuilder:default=Path
	AddressingStyle AddressingStyle `json:"addressingStyle,omitempty"`

	// credentialsSecretRef names the Secret with the keys AWS_ACCESS_KEY_ID,
	// AWS_SECRET_ACCESS_KEY and, optionally, AWS_SESSION_TOKEN. The operator reads the
	// Secret at each probe, so new keys take effect at the next probe.
	// Example: {name: s3-keys}
	// +required
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef,omitzero"`

	// caBundleRef names the ConfigMap key with the PEM certificates of the authorities to
	// trust for the endpoint. They replace the authorities that the system trusts.
	// Example: {name: s3-ca, key: ca.crt}
	// +optional
	CABundleRef *ConfigMapKeyReference `json:"caBundleRef,omitempty"`

	// managementPolicy defines what the operator does to the bucket. Observe only probes the
	// bucket. Manage also creates it, with a tag that contains the UID of this
	// StorageBucket. The operator never adopts an existing bucket. Immutable.
	// Example: Manage
	// +optional
	// +kubebuilder:default=Observe
	ManagementPolicy BucketManagementPolicy `json:"managementPolicy,omitempty"`

	// deletionPolicy defines what happens to a managed bucket when the StorageBucket is
	// deleted. Retain keeps the bucket. Delete deletes the bucket once it is empty. The
	// operator never deletes the objects in a bucket. kubectl delete --cascade=orphan keeps
	// the bucket in either case.
	// Example: Retain
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy BucketDeletionPolicy `json:"deletionPolicy,omitempty"`

	// probe defines the interval, the timeout and the failure threshold of the probes.
	// Example: {periodSeconds: 60, timeoutSeconds: 10, failureThreshold: 3}
	// +optional
	// +kubebuilder:default={periodSeconds: 60, timeoutSeconds: 10, failureThreshold: 3}
	Probe ProbeSpec `json:"probe,omitzero"`
}

// BucketProvisioning is the progress of creating the bucket.
// +kubebuilder:validation:Enum=Intended;Created
type BucketProvisioning string

const (
	// BucketIntended means that the operator may have sent a request that creates the
	// bucket, and has not yet verified that the bucket exists with its tag.
	BucketIntended BucketProvisioning = "Intended"
	// BucketCreated means that the operator saw the bucket with the tag of this StorageBucket.
	BucketCreated BucketProvisioning = "Created"
)

// StorageBucketStatus is the state that the operator last observed. The operator writes
// the status when the result of a probe changes, and otherwise at most once every five
// minutes.
type StorageBucketStatus struct {
	// conditions contain Ready. Stalled and Paused are present only while they apply.
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

	// lastProbeTime is the time of the last probe before this status was written.
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`

	// lastSuccessTime is the time of the last successful probe before this status was
	// written.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`

	// consecutiveFailures is the number of failed probes between the last successful probe
	// and the time this status was written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`

	// observedSecretResourceVersion is the resourceVersion of the Secret that the last probe
	// used. It is empty if there was no Secret.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ObservedSecretResourceVersion string `json:"observedSecretResourceVersion,omitempty"`

	// provisioning is the progress of creating a managed bucket. The operator sets it to
	// Intended before it sends the first request that could create the bucket. After a
	// crash, the status therefore shows that the bucket may exist.
	// +optional
	Provisioning BucketProvisioning `json:"provisioning,omitempty"`

	// lastHandledReconcileAt is the last value of the annotation leasehold.dev/requested-at
	// that the operator handled.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
}

// StorageBucket is a bucket of an S3-compatible storage service outside the cluster.
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

	// status is the state that the operator last observed.
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
	// StorageBucketFinalizer blocks the deletion of a managed StorageBucket until its bucket
	// is deleted or released. A StorageBucket that only observes its bucket has no
	// finalizer.
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

	// Reasons that only managed buckets have.

	// ReasonCreating: the bucket is being created.
	ReasonCreating = "Creating"
	// ReasonBucketConflict: the bucket exists without the tag of this StorageBucket.
	ReasonBucketConflict = "BucketConflict"
	// ReasonBucketNotEmpty: the operator cannot delete the bucket because it contains
	// objects.
	ReasonBucketNotEmpty = "BucketNotEmpty"
	// ReasonTagsNotSupported: the service does not support bucket tags, so the operator
	// cannot manage buckets there.
	ReasonTagsNotSupported = "TagsNotSupported"
)

// Reasons of the events about a StorageBucket.
const (
	// EventBucketHealthy (Normal): the bucket can be used, and before this event it could
	// not.
	EventBucketHealthy = "BucketHealthy"
	// EventBucketUnhealthy (Warning): the bucket can no longer be used, the reason has
	// changed, or the operator cannot probe the bucket.
	EventBucketUnhealthy = "BucketUnhealthy"
	// EventCredentialsRejected (Warning): the credentials are missing or wrong.
	EventCredentialsRejected = "CredentialsRejected"
	// EventEndpointForbidden (Warning): the operator may not connect to the endpoint's
	// address.
	EventEndpointForbidden = "EndpointForbidden"
	// EventBucketCreated (Normal): the operator created a managed bucket.
	EventBucketCreated = "BucketCreated"
	// EventBucketRecreated (Warning): a managed bucket was missing, and the operator created it again, empty.
	EventBucketRecreated = "BucketRecreated"
	// EventBucketDeleted (Normal): the operator deleted a managed bucket.
	EventBucketDeleted = "BucketDeleted"
	// EventBucketRetained: the operator released a managed bucket and kept it. Normal if
	// deletionPolicy is Retain; a Warning if the operator could not carry out Delete.
	EventBucketRetained = "BucketRetained"
	// EventBucketConflict (Warning): the bucket exists without the tag of this StorageBucket.
	EventBucketConflict = "BucketConflict"
	// EventBucketNotEmpty (Warning): the operator cannot delete the bucket because it
	// contains objects.
	EventBucketNotEmpty = "BucketNotEmpty"
)
