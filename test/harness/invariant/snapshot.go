package invariant

import "leasehold.dev/test/harness/history"

// StateAt returns the state of all objects that concern the operator at a checkpoint: for each
// object its fields by path, as EndState compares them.
func StateAt(h *history.History, o Contract, checkpoint string) map[string]map[string]string {
	all := map[string]map[string]string{}
	for name, e := range stateAt(h, o, checkpoint, Contract.concerns) {
		all[name] = e.fields
	}
	return all
}
