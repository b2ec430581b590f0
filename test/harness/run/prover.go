// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/scenario"
)

const (
	// pollInterval is the period of reads while waiting for a state.
	pollInterval = 50 * time.Millisecond
	// recoveryTimeout bounds the wait for ready replicas and for a leader.
	recoveryTimeout = time.Minute
)

// waitUntil waits for a condition, which an error calls what.
func waitUntil(ctx context.Context, what string, isMet func() bool) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		return isMet(), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

// sleep waits for a time, or until ctx ends.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.After(d):
		return nil
	}
}

// Subject describes the operator under test.
type Subject struct {
	// Plane configures its control plane.
	Plane env.Options
	// Operator is its installation.
	Operator env.InstallOptions
	// Contract has the properties of the operator that the invariants need.
	Contract invariant.Contract
	// Replicas is the number of replicas. Zero means 2.
	Replicas int
	// External starts the external system that it uses, if any.
	External StartExternal
	// Node makes Pods run, or Ready, by its options. Without it, Pods stay as they are. Deployments need
	// env.WorkloadControllers in Plane.
	Node *env.NodeOptions
	// Previous is the program of the version to upgrade from. Empty means the same program.
	Previous string
	// ReleaseLease releases the Lease for processes that a fault has killed, so that no run waits
	// for a long Lease to expire.
	ReleaseLease bool
}

// Options configure a Prover.
type Options struct {
	Subject Subject
	// Random draws the names of objects. Required.
	Random *rand.Rand
	// Salt keys the hashes of Secrets' values. Provers whose runs are compared need the same salt.
	// The zero Salt selects a random one.
	Salt record.Salt
	// StopAtRefusal ends a run with a RefusedError at the first step that the API server refuses and
	// that the scenario does not let it refuse: no later step is worth a wait then.
	StopAtRefusal bool
}

// Prover runs scenarios with an operator and judges them. One goroutine may use it at a time.
type Prover struct {
	subject Subject
	random  *rand.Rand
	salt    record.Salt
	clock   clock.Clock
	// stopAtRefusal is as in Options.
	stopAtRefusal bool

	plane        *env.ControlPlane
	installation *env.Installation
	client       client.Client // of an administrator
	dynamic      dynamic.Interface
	raw          rest.Interface // an administrator's, for answers that are not decoded
	// startReplica starts a process behind a proxy of its own.
	startReplica func(ctx context.Context, u replicaOverrides) (process, *fault.Proxy, error)
	impersonate  func(scenario.User) (client.Client, error)
	external     External  // nil if there is none
	node         *env.Node // nil if there is none
	auditLog     string
	runs         int
	failover     time.Duration // bounds a wait for another leader

	mu sync.Mutex
	// replicas is changed under the lock only, because faults run beside the scenario.
	replicas []*replica
	removed  []*replica // replicas that were removed
	releases []history.LeaseRelease
	// reachable are the addresses of this machine that replicas reach besides the API server.
	reachable []string
}

// Start starts a control plane with the operator and waits until it is ready. The caller has to
// stop the Prover.
func Start(ctx context.Context, o Options) (_ *Prover, err error) {
	p := &Prover{subject: o.Subject, random: o.Random, salt: o.Salt.OrNew(), clock: clock.RealClock{},
		failover: recoveryTimeout, stopAtRefusal: o.StopAtRefusal}
	if p.subject.Replicas == 0 {
		p.subject.Replicas = 2
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting a prover: %w", err), p.Stop(ctx))
		}
	}()
	// The control plane outlives this call, and so must its context.
	lasting := context.WithoutCancel(ctx)
	if p.plane, err = env.Start(lasting, p.subject.Plane); err != nil {
		return nil, err
	}
	if p.auditLog = p.plane.AuditLog(); p.auditLog == "" {
		return nil, errors.New("judging needs the audit log of a control plane of its own, and there is none")
	}
	config := p.plane.Config()
	config.WarningHandler = rest.NoWarnings{} // they are for users of kubectl
	if p.client, err = client.New(config, client.Options{}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	p.impersonate = p.impersonateUser
	if p.dynamic, err = dynamic.NewForConfig(p.plane.Config()); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	config.NegotiatedSerializer = clientgoscheme.Codecs // required, and not used
	if p.raw, err = rest.UnversionedRESTClientFor(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if err := p.startReplicas(lasting); err != nil {
		return nil, err
	}
	if err := p.startEnvironment(lasting); err != nil {
		return nil, err
	}
	if err := p.waitUntilReady(ctx); err != nil {
		return nil, err
	}
	if err := p.waitForInformers(ctx); err != nil {
		return nil, err
	}
	// What the operator makes for itself, such as its webhooks, is there before the first scenario.
	setUp := p.clock.Now().Add(setUpTimeout)
	if err := (&execution{prover: p}).waitForIdle(ctx, scenario.Quiesce{}, time.Time{}, setUp); err != nil {
		return nil, err
	}
	p.reportUnread(ctx)
	p.reportLongTerm(ctx)
	return p, nil
}

// setUpTimeout bounds the wait for an operator that is never idle.
const setUpTimeout = 10 * time.Second

// startEnvironment starts the external system and the node, after the replicas.
func (p *Prover) startEnvironment(ctx context.Context) (err error) {
	if p.subject.External != nil {
		if p.external, err = p.subject.External(ctx, p.clock, p.replicaOfConnection); err != nil {
			return err
		}
		_, address, _ := strings.Cut(p.external.Proxy().URL(), "://")
		if err := p.reach(address); err != nil {
			return err
		}
	}
	if p.subject.Node != nil {
		p.node, err = p.plane.StartNode(ctx, *p.subject.Node)
	}
	return err
}

func (p *Prover) startReplicas(ctx context.Context) error {
	var err error
	if p.installation, err = p.plane.Install(ctx, p.subject.Operator); err != nil {
		return err
	}
	p.startReplica = p.startProcess
	for range p.subject.Replicas {
		if _, err := p.addReplica(ctx, replicaOverrides{}); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops everything and returns the errors, including those of replicas that could not be
// restarted.
func (p *Prover) Stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, r := range p.running() {
		errs = append(errs, r.release())
	}
	if p.installation != nil {
		errs = append(errs, p.installation.Stop(ctx))
	}
	for _, r := range p.running() {
		errs = append(errs, r.proxy.Close())
	}
	if p.external != nil {
		errs = append(errs, p.external.Stop())
	}
	if p.node != nil {
		p.node.Stop()
	}
	if p.plane != nil {
		errs = append(errs, p.plane.Stop())
	}
	return errors.Join(errs...)
}
