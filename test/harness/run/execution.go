// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/scenario"
)

// execution is one run of a scenario.
type execution struct {
	prover   *Prover
	began    time.Time
	bookmark record.Bookmark // of the audit log
	auditLog []byte          // the audit log of the run after its end
	names    map[string]string
	watcher  *record.Watcher
	created  []scenario.Ref // what the users and the attackers have made, in that order
	externalState
	// logOffsets has the length of each replica's log when the run began, and logs the lines since.
	logOffsets map[*replica]int64
	logs       map[string][]byte
	// actionTimes are the start times of the steps that act.
	actionTimes []time.Time
	// activeFault is nil in a clean run.
	activeFault *activeFault
	// effects is the number of effects of the fault before the last checkpoint.
	effects int
	// leader is the identity that held the Lease when the replicas had recovered last.
	leader string
	// scenario is the one that runs, and clients has a client for each of its users that acted.
	scenario  scenario.Scenario
	clients   map[string]client.Client
	decisions []history.Decision
	// rejections are requests of steps and of the cleanup that the API server did not accept.
	rejections []history.Rejection
	// hostileNamespaces are the namespaces of attackers.
	hostileNamespaces []string
}

// beginExecution waits until the replicas are ready and starts to record.
func (p *Prover) beginExecution(ctx context.Context, s scenario.Scenario) (*execution, error) {
	p.runs++
	ex := &execution{prover: p, began: p.clock.Now(), names: map[string]string{}}
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		// The number makes the name unique on this control plane, the random part among provers.
		ex.names[name] = fmt.Sprintf("%s-%d-%s", name, p.runs, strconv.FormatUint(uint64(p.random.IntN(36*36*36)), 36))
	}
	// The bookmark and the reset precede the next renewal of the Lease: the audit log and the
	// proxies' journals must name the leader.
	if ex.bookmark, err = record.End(p.auditLog); err != nil {
		return nil, err
	}
	p.reset(ex.began)
	if err := p.waitUntilReady(ctx); err != nil {
		return nil, err
	}
	if ex.logOffsets, err = p.logSizes(); err != nil {
		return nil, err
	}
	if err := ex.snapshotExternal(ctx, s); err != nil {
		return nil, err
	}
	watched, err := p.watchedResources(ctx)
	if err != nil {
		return nil, err
	}
	ex.watcher, err = record.Watch(ctx, p.dynamic, p.clock, ex.hashOfSecrets(), watched...)
	return ex, err
}

// execute runs the scenario, with or without a plan, and returns its history.
func (p *Prover) execute(ctx context.Context, s scenario.Scenario,
	plan *Plan) (_ *execution, _ *history.History, err error) {
	t, err := p.beginExecution(ctx, s)
	if err != nil {
		return nil, nil, fmt.Errorf("beginning a run of scenario %s: %w", s.Name, err)
	}
	defer t.watcher.Stop()
	filled, err := s.Fill(t.placeholders())
	if err != nil {
		return nil, nil, err
	}
	t.hostileNamespaces = filled.Hostile()
	var faults []history.FaultRecord
	if plan != nil {
		if t.activeFault, err = t.inject(ctx, filled, *plan); err != nil {
			return nil, nil, err
		}
	}
	marks, err := t.runSteps(ctx, filled)
	if t.activeFault != nil {
		err = errors.Join(err, t.activeFault.heal())
		faults = []history.FaultRecord{t.activeFault.result()}
	}
	if err != nil {
		return nil, nil, errors.Join(err, t.cleanUp(ctx))
	}
	h, err := t.collectHistory(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("recording a run of scenario %s: %w", s.Name, err)
	}
	h.Merge(&history.History{Began: t.began, Aliases: t.aliases(), Faults: faults, Checkpoints: marks,
		Decisions: t.decisions, Hostile: t.hostileNamespaces})
	h.AliasGenerated(p.subject.Contract.Users)
	h.Merge(p.historySince(t.began))
	h.Merge(t.externalCalls(h))
	if err = t.cleanUp(ctx); err == nil {
		err = t.removeLeftovers(ctx, h)
	}
	h.Merge(&history.History{Rejections: t.rejections})
	return t, h, err
}

// collectHistory merges the audit log and the watches of the run.
func (ex *execution) collectHistory(ctx context.Context) (*history.History, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	if err := ex.watcher.Sync(ctx); err != nil {
		return nil, err
	}
	events, end, err := record.ReadAuditLogFrom(ex.prover.auditLog, ex.bookmark)
	if err != nil {
		return nil, err
	}
	log, err := readFrom(ex.prover.auditLog, int64(ex.bookmark))
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	ex.auditLog = log[:end-ex.bookmark] // the API server goes on to write
	if ex.logs, err = ex.prover.logsFrom(ex.logOffsets); err != nil {
		return nil, err
	}
	h, err := record.FromAudit(events)
	if err != nil {
		return nil, err
	}
	h.Merge(ex.watcher.History())
	return h, nil
}

// aliases maps the names that this run made up to the scenario's placeholders.
func (ex *execution) aliases() map[string]string {
	return aliasesOf(ex.names, ex.open)
}

// aliasesOf maps the values of placeholders to them.
func aliasesOf(placeholders ...map[string]string) map[string]string {
	aliases := map[string]string{}
	for _, some := range placeholders {
		for placeholder, value := range some {
			aliases[value] = "{" + placeholder + "}"
		}
	}
	return aliases
}

// hashOfSecrets hashes values of Secrets with the scenario's placeholders in place of what differs
// in each run or on each control plane: names, and the external system's address and credentials.
func (ex *execution) hashOfSecrets() record.Hash {
	aliases := aliasesOf(ex.placeholders())
	return ex.prover.salt.Hash((&history.History{Aliases: aliases}).Normalizer())
}

// cleanUp deletes the objects of users and attackers, the last one first because it may need an
// earlier one. Its wait is bounded: invariants have already judged objects that cannot be deleted.
// An object whose deletion is rejected is kept, because the next run has other names.
func (ex *execution) cleanUp(ctx context.Context) error {
	end := ex.prover.clock.Now().Add(defaultTimeout)
	bare := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, ref := range slices.Backward(ex.created) {
		var err error
		if slices.Contains(ex.hostileNamespaces, ref.Namespace) { // an attacker may have set a finalizer
			err = client.IgnoreNotFound(ex.prover.client.Patch(ctx, objectOf(ref), bare))
		}
		if err == nil {
			err = client.IgnoreNotFound(ex.prover.client.Delete(ctx, objectOf(ref),
				client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}
		if isAnswer(err) {
			ex.reject("", ref.String(), err)
			continue
		}
		if err != nil {
			return fmt.Errorf("clearing up after a run: %w", err)
		}
		if _, err := ex.waitFor(ctx, end.Sub(ex.prover.clock.Now()), scenario.Wait{Object: ref, Gone: true}); err != nil {
			return fmt.Errorf("clearing up after a run: %w", err)
		}
	}
	return nil
}

// observed returns the observations from which plans are derived.
func (ex *execution) observed(h *history.History) observation {
	return observation{
		Writes: ex.writes(h), WatchEvents: ex.watchEvents(h),
		Calls: ex.observedCalls(h), Leases: ex.prover.watchedLeasePath(), Alone: ex.prover.subject.Replicas == 1,
	}
}
