package denial

import "strings"

// fencePolicy is the suffix of the name of the policy in config/fencing; the prefix may differ.
const fencePolicy = "fence.leasehold.dev"

// ByFence reports whether the fence denied a request. The fence allows writes only by the Pod that
// holds the election Lease. It denies them if another replica leads, and until the API server has
// observed that this one does.
func ByFence(err error) bool {
	d := Of(err)
	return d.Kind == Policy && strings.HasSuffix(d.By, fencePolicy)
}
