package denial

import "strings"

// fencePolicy is how the name of the policy of config/fencing ends, whatever its prefix.
const fencePolicy = "fence.leasehold.dev"

// ByFence reports whether the fence refused a request. The fence lets only the Pod that
// holds the election Lease write. It refuses when another replica leads, and when the API
// server has not yet observed that this one does.
func ByFence(err error) bool {
	d := Of(err)
	return d.Kind == Policy && strings.HasSuffix(d.By, fencePolicy)
}
