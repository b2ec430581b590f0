// Package fence knows the denials of config/fencing, the admission policy that
// lets nobody write but the Pod that holds the election Lease.
package fence

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How the API server begins the cause that it gives for the denial of any
// admission policy, and how the name of ours ends, whatever its prefix.
const (
	denial     = "ValidatingAdmissionPolicy '"
	policyName = "fence.leasehold.dev"
)

// Denied reports whether a request was refused by the fence: somebody else leads,
// or the API server has not heard yet that we do. Its code is that of a missing
// right, 403, but that has no cause; and what another policy refuses has one of
// another name.
func Denied(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, byPolicy)
}

// byPolicy looks at the name only: what follows can repeat words of the request.
func byPolicy(cause metav1.StatusCause) bool {
	rest, ok := strings.CutPrefix(cause.Message, denial)
	if !ok {
		return false
	}
	name, _, ok := strings.Cut(rest, "'")
	return ok && strings.HasSuffix(name, policyName)
}
