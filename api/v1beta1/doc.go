// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 is the API of Leasehold: the kinds, and the constants
// (condition types, reasons, events, labels) that controllers and users share.
//
// +kubebuilder:object:generate=true
// +groupName=leasehold.dev
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "leasehold.dev", Version: "v1beta1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Tenant{}, &TenantList{},
		&StorageBucket{}, &StorageBucketList{},
		&MarkdownView{}, &MarkdownViewList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
