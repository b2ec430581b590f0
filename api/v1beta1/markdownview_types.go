// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of a MarkdownView that its schema and other code depend on.
const (
	// MaxMarkdowns is the largest number of files.
	MaxMarkdowns = 128
	// MaxViewerArgs is the largest number of arguments.
	MaxViewerArgs = 32
	// MaxMarkdownBytes bounds all file names and contents together, in bytes. They
	// must fit into one ConfigMap, which holds 1 MiB.
	MaxMarkdownBytes = 900 << 10
	// MaxMarkdownViewBytes bounds a MarkdownView in the form in which etcd stores it. An
	// etcd request may have 1.5 MiB; 64 KiB are left for what is written after admission:
	// the status, and the fields that each client manages.
	MaxMarkdownViewBytes = 3<<19 - 64<<10
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

// MarkdownViewSpec defines the content of a MarkdownView and the viewer that serves it.
type MarkdownViewSpec struct {
	// markdowns maps the name of each Markdown file to its content. It must contain
	// SUMMARY.md, the table of contents. All names and contents together must be at most 900
	// KiB.
	// Example: {SUMMARY.md: "# Handbook"}
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}\\\\.md$'))",message="each name in markdowns must be at most 253 characters long, start with a letter, digit or '_', consist of letters, digits, '_', '.' and '-', and end in '.md'"
	Markdowns map[string]MarkdownText `json:"markdowns,omitempty"`

	// replicas is the desired number of viewer Pods.
	// Example: 2
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas int32 `json:"replicas,omitempty"`

	// viewerImage is the container image of the viewer. The viewer must listen on port 3000,
	// answer GET / there, read the files from /book/src, and run as any user with a
	// read-only root file system. It may write to /tmp. Defaults to the operator's flag
	// --default-viewer-image.
	// Example: registry.example.com/mdbook:0.4.52
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ViewerImage string `json:"viewerImage,omitempty"`

	// viewerArgs are the arguments of the viewer. If not set, the CMD of the image is used.
	// The example is for mdBook.
	// Example: [serve, --hostname, 0.0.0.0, --dest-dir, /tmp/book]
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ViewerArgs []ViewerArg `json:"viewerArgs,omitempty"`
}

// MarkdownViewStatus is the state that the operator last observed.
type MarkdownViewStatus struct {
	// conditions contain Ready, Available and Degraded. Stalled, Paused and DriftCorrected are present only
	// while they apply.
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

	// replicas is the number of viewer Pods, whether or not they are ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`

	// availableReplicas is the number of viewer Pods that serve the page.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// lastHandledReconcileAt is the last value of the annotation leasehold.dev/requested-at
	// that the operator handled.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// selector is the label selector of the viewer Pods, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// url is the URL of the page inside the cluster. It contains the DNS name of the
	// Service.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`

	// contentHash is the hash of the content that the operator last gave to the viewers. It
	// changes when a file is added, removed, renamed or changed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ContentHash string `json:"contentHash,omitempty"`

	// viewerImage is the image that the operator last gave to the viewers: spec.viewerImage,
	// or the operator's default.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ViewerImage string `json:"viewerImage,omitempty"`
}

// MarkdownView serves a set of Markdown files as a web page inside the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,categories=leasehold,shortName=mdv
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 56 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 56 characters long, consist of lower case letters, digits and '-', and start and end with a letter or digit"
type MarkdownView struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec defines the content and the viewer that serves it.
	// Example: {markdowns: {SUMMARY.md: "# Handbook"}, replicas: 2}
	// +required
	Spec MarkdownViewSpec `json:"spec"`

	// status is the state that the operator last observed.
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
	// ConditionDegraded is True when the page cannot reach the desired state until somebody
	// changes something.
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
	// EventDegraded (Warning): the page cannot reach the desired state.
	EventDegraded = "Degraded"
	// EventContentUpdated (Normal): the operator gave new content to the viewers.
	EventContentUpdated = "ContentUpdated"
	// EventChildConflict (Warning): the operator needs the name of an object that it does
	// not own.
	EventChildConflict = "ChildConflict"
)

// AnnotationContentHash contains MarkdownViewStatus.ContentHash, on the viewers'
// ConfigMap and on their Pods. New content therefore rolls out new Pods.
const AnnotationContentHash = "leasehold.dev/content-hash"
