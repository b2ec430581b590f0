// SPDX-License-Identifier: Apache-2.0

package reconcilertest

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	applyconfigurations "k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"leasehold.dev/api/v1beta1"
)

// Registration of all kinds and the parsing of their schemas take longer than a reconcile, so all
// fake clients share them.
var (
	scheme = sync.OnceValue(func() *runtime.Scheme {
		scheme := runtime.NewScheme()
		utilruntime.Must(clientgoscheme.AddToScheme(scheme))
		utilruntime.Must(v1beta1.AddToScheme(scheme))
		return scheme
	})
	converters = sync.OnceValue(func() []managedfields.TypeConverter {
		return []managedfields.TypeConverter{applyconfigurations.NewTypeConverter(clientgoscheme.Scheme),
			managedfields.NewDeducedTypeConverter()}
	})
)

// NewClientBuilder builds fake clients that know the kinds of Kubernetes and of this operator.
func NewClientBuilder() *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(scheme()).WithTypeConverters(converters()...)
}
