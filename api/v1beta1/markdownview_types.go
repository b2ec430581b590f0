package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of a MarkdownView that more than its schema depends on.
const (
	// MaxMarkdownViewName leaves room for the prefixes of the children's names
	// within the 63 characters that a Service's name may have.
	MaxMarkdownViewName = 56
	// MaxMarkdownBytes bounds all file names and contents together, in bytes. They
	// have to fit into one ConfigMap, which holds 1 MiB.
	MaxMarkdownBytes = 900 << 10
	// MinViewerReplicas and MaxViewerReplicas bound spec.replicas.
	MinViewerReplicas = 1
	MaxViewerReplicas = 5
)

// MarkdownText is the content of one Markdown file.
// Example: "# Welcome"
// +kubebuilder:validation:MaxLength=262144
type MarkdownText string

// ViewerArg is one argument of the viewer.
// Example: serve
// +kubebuilder:validation:MaxLength=1024
type ViewerArg string

// MarkdownViewSpec is the desired content of a MarkdownView, and the viewer that serves it.
type MarkdownViewSpec struct {
	// markdowns are the Markdown files: contents by file name. There must be a
	// SUMMARY.md, the table of contents. All names and contents together must be
	// at most 900 KiB.
	// Example: {SUMMARY.md: "# Handbook"}
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}\\\\.md$'))",message="each name in markdowns must be at most 253 characters long, start with a letter, digit or '_', consist of letters, digits, '_', '.' and '-', and end in '.md'"
	Markdowns map[string]MarkdownText `json:"markdowns,omitempty"`

	// replicas is how many viewers serve the page.
	// Example: 2
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas int32 `json:"replicas,omitempty"`

	// viewerImage is the container image of the viewer. It must listen on port
	// 3000, answer GET / there, take the files from /book/src, and run as any
	// user with a read-only root file system; /tmp can be written to. The default
	// is the operator's flag --default-viewer-image.
	// Example: registry.example.com/mdbook:0.4.52
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ViewerImage string `json:"viewerImage,omitempty"`

	// viewerArgs are the arguments of the viewer, in place of those of its image. The
	// example is for mdBook.
	// Example: [serve, --hostname, 0.0.0.0, --dest-dir, /tmp/book]
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ViewerArgs []ViewerArg `json:"viewerArgs,omitempty"`
}

// MarkdownViewStatus is what the operator observed last.
type MarkdownViewStatus struct {
	// conditions are Ready, Available and Degraded, and Stalled while it applies.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes, at first -1.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is how many viewers there are, ready or not.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`

	// availableReplicas is how many viewers serve the page.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// selector selects the viewers' Pods, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// url is where the page is served inside the cluster, by the cluster's DNS.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`

	// contentHash is the hash of the content that the viewers were given last. It changes
	// when a file is added, removed, renamed or changed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ContentHash string `json:"contentHash,omitempty"`
}

// MarkdownView is a set of Markdown files, shown as a web page inside the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,categories=leasehold,shortName=mdv
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 56 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 56 characters long, consist of lower case letters, digits and '-', and start and end with a letter or digit"
type MarkdownView struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired content, and the viewer that serves it.
	// Example: {markdowns: {SUMMARY.md: "# Handbook"}, replicas: 2}
	// +required
	Spec MarkdownViewSpec `json:"spec"`

	// status is what the operator observed last.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status MarkdownViewStatus `json:"status,omitempty,omitzero"`
}

// MarkdownViewList is a list of MarkdownViews.
//
// +kubebuilder:object:root=true
type MarkdownViewList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the MarkdownViews.
	Items []MarkdownView `json:"items"`
}

// Condition types of a MarkdownView, beside Ready and Stalled.
const (
	// ConditionAvailable is True while at least one viewer serves the page.
	ConditionAvailable = "Available"
	// ConditionDegraded is True when something keeps the page from being as
	// asked for that time alone does not cure.
	ConditionDegraded = "Degraded"
)

// Reasons of the conditions of a MarkdownView that no other kind has.
const (
	ReasonReplicasAvailable   = "ReplicasAvailable"
	ReasonNoReplicasAvailable = "NoReplicasAvailable"
	ReasonAsExpected          = "AsExpected"
	ReasonRolloutStalled      = "RolloutStalled"
)

// Reasons of the events about a MarkdownView.
const (
	// EventAvailable (Normal): the page is served.
	EventAvailable = "Available"
	// EventDegraded (Warning): the page cannot be brought to be as asked for.
	EventDegraded = "Degraded"
	// EventContentUpdated (Normal): the viewers were given other content.
	EventContentUpdated = "ContentUpdated"
	// EventChildConflict (Warning): an object of a name we need is not ours.
	EventChildConflict = "ChildConflict"
	// EventDriftCorrected (Normal): somebody had changed or deleted a child, and
	// it was put right.
	EventDriftCorrected = "DriftCorrected"
)

// AnnotationContentHash carries MarkdownViewStatus.ContentHash on the viewers'
// Pods, so that other content makes other Pods.
const AnnotationContentHash = "leasehold.dev/content-hash"
