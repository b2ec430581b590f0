package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/harness/scenario"
)

const (
	// poll is how often the API server is asked whether something has come about.
	poll = 50 * time.Millisecond
	// recovery is how long the replicas may take to be ready, and one of them to lead.
	recovery = time.Minute
)

// Figures are the names of an operator's metrics.
type Figures = record.Figures

// Subject is an operator that is to be proved, as data.
type Subject struct {
	// Plane is the control plane that it needs.
	Plane env.Options
	// Operator is how it ships.
	Operator env.Subject
	// Promises are what has to be known of it to judge it.
	Promises invariant.Operator
	// Watched are resources that have to do with it besides those of the promises:
	// every version of what a run makes of any of them is recorded.
	Watched []history.Resource
	// Replicas is how many of it run. Zero: 2.
	Replicas int
	// External starts what it uses outside the cluster. Nil: nothing.
	External StartExternal
	// Node runs the Pods that there are, of the images that it knows. Nil: Pods stay
	// as they are. For Deployments the Plane needs env.WorkloadControllers.
	Node *env.NodeOptions
	// Figures are the names of the metrics that tell of work and resources. The zero
	// value: those of controller-runtime.
	Figures Figures
	// Unelected are arguments, after all others, with which a replica acts without
	// being elected.
	Unelected []string
	// Previous is the program of another version, from which is upgraded. Empty: the
	// same program.
	Previous string
	// Changes are what may change in its installation while it runs.
	Changes []Change
}

// Options say what is proved.
type Options struct {
	Subject Subject
	// Random gives the names of objects. Required.
	Random *rand.Rand
	// Clock is for times and waits. Nil: the real one.
	Clock clock.Clock
}

// Prover is an operator under test. Its methods are for one goroutine.
type Prover struct {
	subject Subject
	random  *rand.Rand
	clock   clock.Clock

	plane        *env.ControlPlane
	installation *env.Installation
	client       client.Client // of an administrator
	dynamic      dynamic.Interface
	launch       launch
	impersonate  func(scenario.User) (client.Client, error)
	external     External  // nil if there is none
	node         *env.Node // nil if there is none
	auditLog     string
	runs         int

	mu sync.Mutex
	// replicas change while something runs beside the scenario only, under the lock.
	replicas []*replica
	retired  []*replica // those that are no more
}

// Start starts a control plane with the operator and waits until it is ready. The
// Prover has to be stopped.
func Start(ctx context.Context, o Options) (_ *Prover, err error) {
	p := &Prover{subject: o.Subject, random: o.Random, clock: o.Clock}
	if p.clock == nil {
		p.clock = clock.RealClock{}
	}
	if p.subject.Replicas == 0 {
		p.subject.Replicas = 2
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting a prover: %w", err), p.Stop(ctx))
		}
	}()
	// Others may start one at the same time, on a machine that has little to spare.
	if p.subject.Plane.StartTimeout == 0 {
		p.subject.Plane.StartTimeout = time.Minute
	}
	// What is started here outlives the call, and so must its context.
	lasting := context.WithoutCancel(ctx)
	if p.plane, err = env.Start(lasting, p.subject.Plane); err != nil {
		return nil, err
	}
	if p.auditLog = p.plane.AuditLog(); p.auditLog == "" {
		return nil, errors.New("judging needs the audit log of a control plane of its own, and there is none")
	}
	config := p.plane.Config()
	config.WarningHandler = rest.NoWarnings{} // they are for people who apply things by hand
	if p.client, err = client.New(config, client.Options{}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	p.impersonate = p.impersonateUser
	if p.dynamic, err = dynamic.NewForConfig(p.plane.Config()); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if err := p.install(lasting); err != nil {
		return nil, err
	}
	if err := p.surround(lasting); err != nil {
		return nil, err
	}
	return p, p.recovered(ctx)
}

// surround starts what the operator needs around it, once there are replicas.
func (p *Prover) surround(ctx context.Context) (err error) {
	if p.subject.External != nil {
		if p.external, err = p.subject.External(ctx, p.clock, p.owner); err != nil {
			return err
		}
	}
	if p.subject.Node != nil {
		p.node, err = p.plane.StartNode(ctx, *p.subject.Node)
	}
	return err
}

// install starts the replicas, each behind a proxy.
func (p *Prover) install(ctx context.Context) error {
	var err error
	if p.installation, err = p.plane.Install(ctx, p.subject.Operator); err != nil {
		return err
	}
	p.launch = p.launchProcess
	for range p.subject.Replicas {
		if _, err := p.add(ctx, unlike{}); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends everything and returns what went wrong with that, and with the
// replicas meanwhile.
func (p *Prover) Stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, r := range p.present() {
		errs = append(errs, r.leave())
	}
	if p.installation != nil {
		errs = append(errs, p.installation.Stop(ctx))
	}
	for _, r := range p.present() {
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

// recovered waits until all replicas are ready and the Lease, which one of them
// holds, is renewed.
func (p *Prover) recovered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	var last error
	before := ""
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		var version string
		if last = p.ready(ctx); last == nil {
			version, last = p.heldLease(ctx)
		}
		renewed := last == nil && before != "" && before != version
		if last == nil {
			before = version
		}
		return renewed, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waiting for the replicas: %w", err), last)
	}
	return nil
}

// ready says which replica is not.
func (p *Prover) ready(ctx context.Context) error {
	var errs []error
	for _, r := range p.present() {
		if err := r.process.Ready(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%w; the end of its log:\n%s", err, r.process.LogTail(5)))
		}
	}
	return errors.Join(errs...)
}

// heldLease is the version of the Lease; it is an error if nobody holds it.
func (p *Prover) heldLease(ctx context.Context) (string, error) {
	lease, err := p.lease(ctx)
	if err != nil {
		return "", err
	}
	if holder(lease) == "" {
		return "", errors.New("nobody holds the Lease")
	}
	return lease.ResourceVersion, nil
}
