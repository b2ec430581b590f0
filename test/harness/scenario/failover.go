package scenario

// FalseEvidence shows standbys an end of the leader's process, which runs on. Its variants are
// states of the leader's Pod.
const FalseEvidence Perturbation = "P21"

// Variants of FalseEvidence, and of Pause.
const (
	// VariantTerminated is a status in which the leader's container has terminated.
	VariantTerminated = "terminated"
	// VariantDeleted is a forced deletion.
	VariantDeleted = "deleted"
	// VariantReplaced is a forced deletion and another Pod of that name, which has failed.
	VariantReplaced = "replaced"
	// VariantReconnect cuts the watches of the Lease again and again while the leader is paused.
	VariantReconnect = "reconnect"
)

// failover plans faults of a standby's view of the Lease and its holder. Each happens once, at a
// random write or step.
func failover(d *derivation) []Plan {
	var plans []Plan
	if writes := d.writes(); len(writes) > 0 {
		for _, variant := range variants[FalseEvidence] {
			plans = append(plans, d.plan(FalseEvidence, variant, d.one(writes)))
		}
		plans = append(plans, d.plan(Pause, VariantReconnect, d.one(writes)))
	}
	actions := 0
	for _, step := range d.scenario.Steps {
		if step.Acts() {
			actions++
		}
	}
	if path := d.runs[0].Leases; path != "" && actions > 0 {
		for _, p := range []Perturbation{LateEvents, MissedEvents, LostEvents} {
			plans = append(plans, d.plan(p, "", Target{Method: watchMethod, Path: path, Nth: 1 + d.random.IntN(actions)}))
		}
		plans = append(plans, d.plan(StaleStart, "", Target{Method: startMethod, Path: path, Nth: 1 + d.random.IntN(actions)}))
	}
	return plans
}
