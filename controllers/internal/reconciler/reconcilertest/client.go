// SPDX-License-Identifier: Apache-2.0

package reconcilertest

import (
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	applyconfigurations "k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"leasehold.dev/api/v1beta1"
)

// Registration of kinds and the parsing of their schemas take longer than a reconcile, so all fake
// clients share them. Only kinds of the controllers are registered: the fake client makes a RESTMapper
// of all kinds for each write.
var (
	scheme = sync.OnceValue(func() *runtime.Scheme {
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme,
			v1beta1.AddToScheme} {
			utilruntime.Must(add(scheme))
		}
		return scheme
	})
	converters = sync.OnceValue(func() []managedfields.TypeConverter {
		return []managedfields.TypeConverter{applyconfigurations.NewTypeConverter(clientgoscheme.Scheme),
			managedfields.NewDeducedTypeConverter()}
	})
)

// NewClientBuilder builds fake clients that know the kinds of this operator and of its children.
func NewClientBuilder() *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(scheme()).WithTypeConverters(converters()...)
}
