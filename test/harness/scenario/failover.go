package scenario

// FalseEvidence shows standbys an end of the leader's process, which runs on. Its variants are
// states of the leader's Pod.
const FalseEvidence Fault = "false-evidence"

// Variants of FalseEvidence.
const (
	// VariantTerminated is a status in which the leader's container has terminated.
	VariantTerminated = "terminated"
	// VariantDeleted is a forced deletion.
	VariantDeleted = "deleted"
	// VariantReplaced is a forced deletion and another Pod of that name, which has failed.
	VariantReplaced = "replaced"
)

// failover plans faults of a standby's view of the Lease and its holder. Each happens once, at a
// write or step that the seed selects.
func failover(d *derivation) []Plan {
	var plans []Plan
	if writes := d.writes(); len(writes) > 0 {
		for _, variant := range kinds[FalseEvidence].variants {
			plans = append(plans, d.one(d.at(FalseEvidence, variant, writes)))
		}
		plans = append(plans, d.one(d.at(LeaderPauseReconnect, "", writes)))
	}
	var watches, starts []Target // of the Lease, one for each step that acts
	for _, step := range d.scenario.Steps {
		if step.Acts() {
			nth := len(watches) + 1
			watches = append(watches, Target{Method: watchMethod, Path: d.runs[0].Leases, Nth: nth})
			starts = append(starts, Target{Method: startMethod, Path: d.runs[0].Leases, Nth: nth})
		}
	}
	if d.runs[0].Leases != "" && len(watches) > 0 {
		for _, p := range []Fault{WatchDelay, WatchGap} {
			plans = append(plans, d.one(d.at(p, "", watches)))
		}
		plans = append(plans, d.one(d.at(StaleStart, "", starts)))
	}
	return plans
}
