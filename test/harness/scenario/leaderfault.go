package scenario

const (
	// DeliverLate holds a write of the leader until another replica leads.
	DeliverLate Perturbation = "P10"
	// Pause stops the leader's process until another replica leads.
	Pause Perturbation = "P11"
	// CutLease separates the leader from its Lease until another replica leads, or from everything
	// but its Lease.
	CutLease Perturbation = "P12"
	// Partition separates one replica or all of them from the API server.
	Partition Perturbation = "P13"
	// Terminate sends SIGTERM to a replica. Without a variant it is the leader.
	Terminate Perturbation = "P14"
	// SplitBrain lets two processes act that do not know of each other.
	SplitBrain Perturbation = "P16"
)

// Variants of the faults above. VariantLeader, VariantAll, VariantStandby and VariantStart name the
// affected replicas; VariantStart is one that has just started. VariantSlow is a leader that waits
// for an answer.
const (
	VariantRest      = "rest"
	VariantLeader    = "leader"
	VariantAll       = "all"
	VariantStart     = "start"
	VariantStandby   = "standby"
	VariantSlow      = "slow"
	VariantUnelected = "unelected"
	VariantUpgrade   = "upgrade"
)

// Beside is the method of a target that is no request: the fault lasts for the whole run.
const Beside = "BESIDE"

// lateWrites plans the late arrival of each write, because any may do harm.
func lateWrites(d *derivation) []Plan {
	return d.at(DeliverLate, "", d.writes())
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
	few := func(p Perturbation, variant string) { plans = append(plans, d.few(d.at(p, variant, writes))...) }
	one := func(p Perturbation, variant string) { plans = append(plans, d.one(d.at(p, variant, writes))) }
	few(Pause, "")
	few(CutLease, "")
	one(CutLease, VariantRest)
	for _, variant := range variants[Partition] {
		one(Partition, variant)
	}
	few(Terminate, "")
	few(Terminate, VariantSlow)
	one(Terminate, VariantStandby)
	one(Terminate, VariantStart)
	return plans
}

// splitBrains plans an unelected replica for the whole run, and an upgrade from a write on.
func splitBrains(d *derivation) []Plan {
	writes := d.writes()
	if len(writes) == 0 {
		return nil
	}
	plans := []Plan{d.one(d.at(SplitBrain, VariantUpgrade, writes))}
	if d.runs[0].Unelected {
		plans = append(plans, d.plan(SplitBrain, VariantUnelected, Target{Method: Beside, Path: "all", Nth: 1}))
	}
	return plans
}
