package scenario

const (
	// LateWrite holds a write of the leader until another replica leads.
	LateWrite Fault = "late-write"
	// LeaderPause stops the leader's process until another replica leads.
	LeaderPause Fault = "leader-pause"
	// LeaderPauseReconnect also cuts the watches of the Lease again and again meanwhile.
	LeaderPauseReconnect Fault = "leader-pause-reconnect"
	// LeaderPartition separates the leader from the API server.
	LeaderPartition Fault = "leader-partition"
	// FullPartition separates all replicas from the API server.
	FullPartition Fault = "full-partition"
	// PartitionedStart starts a standby that cannot reach the API server.
	PartitionedStart Fault = "partitioned-start"
	// StopLeader sends SIGTERM to the leader.
	StopLeader Fault = "stop-leader"
	// StopStandby sends SIGTERM to a replica that does not lead.
	StopStandby Fault = "stop-standby"
	// StopAtStart sends SIGTERM to a replica that has just started.
	StopAtStart Fault = "stop-at-start"
	// SlowStop sends SIGTERM to a leader that waits for an answer.
	SlowStop Fault = "slow-stop"
	// Upgrade replaces all replicas, one after another.
	Upgrade Fault = "upgrade"
)

// lateWrites plans the late arrival of each write, because any may do harm.
func lateWrites(d *derivation) []Plan {
	return d.at(LateWrite, "", d.writes())
}

// leaderFaults plans faults of whole processes. If the leader's work matters, they happen at the
// first write, at the last, and at one between. The others happen at one write. The seed selects
// it.
func leaderFaults(d *derivation) []Plan {
	writes := d.writes()
	if len(writes) == 0 {
		return nil
	}
	var plans []Plan
	for _, fault := range []Fault{LeaderPause, StopLeader, SlowStop} {
		plans = append(plans, d.few(d.at(fault, "", writes))...)
	}
	for _, fault := range []Fault{LeaderPartition, FullPartition, PartitionedStart, StopStandby, StopAtStart} {
		plans = append(plans, d.one(d.at(fault, "", writes)))
	}
	return plans
}

// upgrades plans an upgrade from a write on.
func upgrades(d *derivation) []Plan {
	writes := d.writes()
	if len(writes) == 0 {
		return nil
	}
	return []Plan{d.one(d.at(Upgrade, "", writes))}
}
