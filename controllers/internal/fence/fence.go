// Package fence knows the denials of config/fencing, the admission policy that
// lets only the Pod that holds the election Lease write.
package fence

import (
	"strings"

	"leasehold.dev/controllers/internal/denial"
)

// policyName is how the name of the fence's policy ends, whatever its prefix.
const policyName = "fence.leasehold.dev"

// Denied reports whether the fence refused a request: another replica leads, or
// the API server has not seen yet that this one does.
func Denied(err error) bool {
	d := denial.Of(err)
	return d.Kind == denial.Policy && strings.HasSuffix(d.By, policyName)
}
