// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Finalizer holds a Backup until its entry in the catalogue is gone.
const Finalizer = "archive.example.com/catalogue"

// AnnotationBackupUID is on an entry of the catalogue and says which Backup it is of.
const AnnotationBackupUID = "archive.example.com/backup-uid"

// AnnotationNote is on a Backup's Job and has its note.
const AnnotationNote = "archive.example.com/note"

// ConditionReady says that the Backup's Job has been started and that it is in the
// catalogue.
const ConditionReady = "Ready"

// BackupSpec defines the desired state of a Backup.
type BackupSpec struct {
	// Database is what is backed up.
	// +kubebuilder:validation:MinLength=1
	Database string `json:"database"`
	// Note is shown in the catalogue.
	// +optional
	Note string `json:"note,omitempty"`
}

// BackupStatus defines the observed state of a Backup.
type BackupStatus struct {
	// JobName is the Job that does it.
	// +optional
	JobName string `json:"jobName,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Backup is one copy of a database, made once.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Database",type=string,JSONPath=`.spec.database`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BackupSpec   `json:"spec,omitempty"`
	Status BackupStatus `json:"status,omitempty"`
}

// BackupList contains a list of Backups.
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Backup `json:"items"`
}
