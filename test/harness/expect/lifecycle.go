// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"

	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// HaveFinalizer matches an object that carries the finalizer.
func HaveFinalizer(name string) types.GomegaMatcher {
	return &objectMatcher{
		want: fmt.Sprintf("to have the finalizer %s", name),
		judge: func(o client.Object) (bool, string, error) {
			return controllerutil.ContainsFinalizer(o, name), "finalizers: " + list(o.GetFinalizers()), nil
		},
	}
}

// BeTerminating matches an object whose deletion has begun and is not complete.
func BeTerminating() types.GomegaMatcher {
	return &objectMatcher{
		want: "to be terminating",
		judge: func(o client.Object) (bool, string, error) {
			if o.GetDeletionTimestamp() == nil {
				return false, "no deletionTimestamp", nil
			}
			return true, "deletionTimestamp " + o.GetDeletionTimestamp().String(), nil
		},
	}
}

// BeGone matches the error of a Get of an object that does not exist. Another
// error, such as a refusal, is not proof of absence.
func BeGone() types.GomegaMatcher {
	return gcustom.MakeMatcher(func(err error) (bool, error) {
		return apierrors.IsNotFound(err), nil
	}).WithTemplate("Expected the Get {{.To}} find nothing (NotFound), its error was\n{{.FormattedActual}}")
}
