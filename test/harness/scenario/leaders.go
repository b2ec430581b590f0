package scenario

import "slices"

const (
	// DeliverLate holds a request of the leader on its way, has another replica lead
	// meanwhile, and lets it arrive then.
	DeliverLate Perturbation = "P10"
	// Pause stops the leader from running until another one leads, and lets it go on.
	Pause Perturbation = "P11"
	// CutLease keeps the leader from its Lease, and from nothing else, until another
	// one leads. Its variant is the reverse: all but the Lease.
	CutLease Perturbation = "P12"
	// CutOff keeps a replica from the API server, or all of them. Its variants are
	// whom.
	CutOff Perturbation = "P13"
	// Ask asks a replica to stop. Its variants are which, or in the middle of what;
	// without one it is the leader.
	Ask Perturbation = "P14"
	// Twins has two processes act that do not know of each other. Its variants say
	// how that comes.
	Twins Perturbation = "P16"
)

// Variants that need a word. VariantLeader and VariantAll are whom CutOff meets, and
// VariantStart a replica that starts; so it is of Ask, where VariantStandby is one
// that does not lead, and VariantSlow a leader that is waiting for an answer.
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

// Beside is the method of a target that is no request: what goes wrong is there all
// the time.
const Beside = "BESIDE"

// lateWrites let each write arrive late: which one does harm then is not known
// before.
func lateWrites(d *derivation) []Plan {
	var plans []Plan
	for _, t := range d.writes() {
		plans = append(plans, d.plan(DeliverLate, "", t))
	}
	return plans
}

// lostLeaders are what happens to whole processes. What the leader does at that
// moment matters to some: they happen at the first write, the last, and one between
// that the random numbers choose. The others happen at one.
func lostLeaders(d *derivation) []Plan {
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
	for _, variant := range variants[CutOff] {
		add(CutOff, variant, d.one(writes))
	}
	add(Ask, "", d.few(writes)...)
	add(Ask, VariantSlow, d.few(writes)...)
	add(Ask, VariantStandby, d.one(writes))
	add(Ask, VariantStart, d.one(writes))
	return plans
}

// twins are two processes that act at once: all the time, and from a write on.
func twins(d *derivation) []Plan {
	writes := d.writes()
	if len(writes) == 0 {
		return nil
	}
	plans := []Plan{d.plan(Twins, VariantUpgrade, d.one(writes))}
	if d.runs[0].Unelected {
		plans = append(plans, d.plan(Twins, VariantUnelected, Target{Method: Beside, Path: "all", Nth: 1}))
	}
	return plans
}

// one is one of the targets, as the random numbers say.
func (d *derivation) one(all []Target) Target { return all[d.random.IntN(len(all))] }

// few are the first of the targets, one between and the last, each once.
func (d *derivation) few(all []Target) []Target {
	last := len(all) - 1
	few := []Target{all[0]}
	if last > 1 {
		few = append(few, d.one(all[1:last]))
	}
	return slices.Compact(append(few, all[last]))
}
