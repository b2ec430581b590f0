// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// The lanes that are not a replica's.
const (
	laneUsers    = "users"
	laneFaults   = "faults"
	laneExternal = "external"
	laneCluster  = "cluster"
	laneOperator = "operator" // requests of the operator whose replica is unknown
)

// participants are the replicas and users of a run.
type participants struct {
	contract invariant.Contract
	replicas []string // full names, in order
	prefix   string   // what all their names begin with
}

func participantsOf(h *history.History, o invariant.Contract) *participants {
	names := sets.New[string]()
	for _, r := range h.Replicas {
		names.Insert(r.Name)
	}
	for _, r := range h.Requests {
		if slices.Contains(o.Users, r.User) && r.Replica != "" {
			names.Insert(r.Replica)
		}
	}
	c := &participants{contract: o, replicas: sets.List(names)}
	if len(c.replicas) > 1 {
		first, last := c.replicas[0], c.replicas[len(c.replicas)-1]
		n := 0
		for n < len(first) && n < len(last) && first[n] == last[n] {
			n++
		}
		c.prefix = first[:strings.LastIndex(first[:n], "-")+1]
	}
	return c
}

// lane returns the lane of a request.
func (c *participants) lane(r history.Request) string {
	switch {
	case slices.Contains(c.contract.Users, r.User) && r.Replica == "":
		return laneOperator
	case slices.Contains(c.contract.Users, r.User):
		return c.laneOf(r.Replica)
	case strings.HasPrefix(r.User, "system:"):
		return laneCluster
	}
	return laneUsers
}

// laneOf returns the lane of a replica, which is a class of the style sheet.
func (c *participants) laneOf(replica string) string {
	i := slices.Index(c.replicas, replica)
	if i < 0 {
		return laneOperator
	}
	return fmt.Sprintf("r%d", i)
}

// short returns a replica's name without the prefix that all have in common.
func (c *participants) short(replica string) string {
	return "replica " + strings.TrimPrefix(replica, c.prefix)
}

// laneName returns the name of a lane as the page shows it.
func (c *participants) laneName(lane string) string {
	for _, replica := range c.replicas {
		if c.laneOf(replica) == lane {
			return c.short(replica)
		}
	}
	return map[string]string{
		laneUsers: "users", laneFaults: "faults", laneExternal: "outside", laneCluster: "cluster", laneOperator: "a replica",
	}[lane]
}
