package scenario

import "slices"

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
	var plans []Plan
	for _, t := range d.writes() {
		plans = append(plans, d.plan(DeliverLate, "", t))
	}
	return plans
}

// leaderFaults plans faults of whole processes. If the leader's work matters, they happen at the
// first write, at the last, and at a random one between. The others happen at one random write.
func leaderFaults(d *derivation) []Plan {
	writes := d.writes()
	if len(writes) == 0 {
		return nil
	}
	var plans []Plan
	add := func(p Perturbation, variant string, targets ...Target) {
		for _, t := range targets {
			plans = append(plans, d.plan(p, variant, t))
		}
	}
	add(Pause, "", d.few(writes)...)
	add(CutLease, "", d.few(writes)...)
	add(CutLease, VariantRest, d.one(writes))
	for _, variant := range variants[Partition] {
		add(Partition, variant, d.one(writes))
	}
	add(Terminate, "", d.few(writes)...)
	add(Terminate, VariantSlow, d.few(writes)...)
	add(Terminate, VariantStandby, d.one(writes))
	add(Terminate, VariantStart, d.one(writes))
	return plans
}

// splitBrains plans an unelected replica for the whole run, and an upgrade from a write on.
func splitBrains(d *derivation) []Plan {
	writes := d.writes()
	if len(writes) == 0 {
		return nil
	}
	plans := []Plan{d.plan(SplitBrain, VariantUpgrade, d.one(writes))}
	if d.runs[0].Unelected {
		plans = append(plans, d.plan(SplitBrain, VariantUnelected, Target{Method: Beside, Path: "all", Nth: 1}))
	}
	return plans
}

// one returns a random target.
func (d *derivation) one(all []Target) Target { return all[d.random.IntN(len(all))] }

// few returns the first target, the last, and a random one between, each once.
func (d *derivation) few(all []Target) []Target {
	last := len(all) - 1
	few := []Target{all[0]}
	if last > 1 {
		few = append(few, d.one(all[1:last]))
	}
	return slices.Compact(append(few, all[last]))
}
