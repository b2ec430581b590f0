package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// splitBrain lets two processes act without coordination: a replica that is not elected,
// or the old and the new replicas of an upgrade.
type splitBrain struct{}

func (s splitBrain) inject(ctx context.Context, a *activeFault) error {
	if a.plan.Fault == scenario.Upgrade {
		return upgrade{}.inject(ctx, a)
	}
	return s.addUnelected(ctx, a)
}

// addUnelected runs one more replica, which acts without being elected, until the run ends.
func (s splitBrain) addUnelected(ctx context.Context, a *activeFault) error {
	arguments := a.prover.subject.Unelected
	if len(arguments) == 0 {
		return errors.New("the subject does not say how a replica acts without being elected")
	}
	began := a.now()
	r, err := a.prover.addReplica(ctx, replicaOverrides{args: arguments, build: fmt.Sprint(arguments)})
	if err != nil {
		return err
	}
	a.cleanups = append(a.cleanups, func() error {
		s.recordWrites(a, r, began)
		return a.prover.removeReplica(context.WithoutCancel(ctx), r)
	})
	return a.waitUntilReady(ctx, r)
}

// recordWrites records the writes of the replica that is not elected.
func (splitBrain) recordWrites(a *activeFault, r *replica, began time.Time) {
	wrote, refused := 0, 0
	for _, request := range r.proxy.Journal().Mutating() {
		if request.Status == 0 || !a.needsLeader(request) {
			continue
		}
		wrote++
		if !request.Committed() {
			refused++
		}
	}
	if wrote == 0 {
		a.setVoidReason("replica %s, which was not elected, tried to change nothing", r.process.Name())
		return
	}
	a.record(history.Fault{
		Replica: r.process.Name(), Began: began, Ended: a.now(), Unelected: true,
		Detail: fmt.Sprintf("it acted without being elected: it sent %d writes, of which %d were refused", wrote, refused),
	})
}

// needsLeader reports whether only a leader may send a request.
func (a *activeFault) needsLeader(r fault.Request) bool {
	info := requestInfoOf(r)
	if info == nil || r.Path == a.prover.leasePath() {
		return false
	}
	about := history.Resource{Group: info.APIGroup, Resource: info.Resource}
	return !slices.Contains(a.prover.subject.Contract.AnyReplica, about)
}
