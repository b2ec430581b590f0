package environment

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/leasehold"
)

const (
	// patience is how long a replica may take to be ready, or a leader to be elected.
	patience = time.Minute
	poll     = 20 * time.Millisecond
)

// Parameters are all that a measurement gets from its caller.
type Parameters struct {
	// Checkout is what is measured.
	Checkout Checkout
	// Seed is the seed of all random choices.
	Seed uint64
	// Quick measures as little as shows that the measurement works: few runs of small sizes.
	Quick bool
	// Clock measures time.
	Clock clock.WithTicker
	// Say reports progress, as fmt.Printf without the end of the line.
	Say func(format string, args ...any)
}

// Options say how the operator runs. The zero value is one replica as it ships.
type Options struct {
	// Replicas is how many run. Zero: one.
	Replicas int
	// Args follow the arguments that ship.
	Args []string
	// Connect changes how the replicas reach the API server, as through a proxy.
	Connect func(*rest.Config)
	// Plane is how the control plane is started; the CRDs of the checkout are added.
	Plane env.Options
}

// Environment is the operator of one checkout on a control plane of its own.
type Environment struct {
	Checkout     Checkout
	Plane        *env.ControlPlane
	Installation *env.Installation
	// Client acts as an administrator, past any cache and as fast as it likes.
	Client client.Client
}

// Start starts a control plane, installs the operator of the checkout and returns
// when all its replicas are ready, one leads and admission answers. The Environment has
// to be stopped.
func Start(ctx context.Context, c Checkout, o Options) (_ *Environment, err error) {
	s := &Environment{Checkout: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	config := filepath.Join(c.Dir, "config")
	if s.Plane, err = leasehold.StartControlPlane(ctx, config, o.Plane); err != nil {
		return nil, err
	}
	if s.Client, err = client.New(s.Plane.Config(), client.Options{Scheme: leasehold.Scheme()}); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	// Metrics that the measurement may read, and S3 servers of this machine.
	args := append([]string{"--metrics-secure=false", "--endpoint-allow-cidr=127.0.0.1/32"}, o.Args...)
	subject := leasehold.Subject(config, c.Manager, args...)
	subject.Connect = o.Connect
	if s.Installation, err = s.Plane.Install(ctx, subject); err != nil {
		return nil, err
	}
	for range max(o.Replicas, 1) {
		if _, err = s.Installation.Start(ctx); err != nil {
			return nil, err
		}
	}
	return s, s.AwaitReady(ctx)
}

// AwaitReady returns when all replicas that run are ready, one of them leads and
// admission answers.
func (s *Environment) AwaitReady(ctx context.Context) error {
	for _, r := range s.Installation.Replicas() {
		err := within(ctx, r.Name()+" to be ready", func(ctx context.Context) error {
			if err := r.Ready(ctx); r.Running() {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if _, err := s.AwaitLeader(ctx); err != nil {
		return err
	}
	probe := &v1beta1.Tenant{Spec: v1beta1.TenantSpec{Namespaces: []v1beta1.NamespaceSuffix{"x"}}}
	probe.Name = "admission"
	return within(ctx, "admission to answer", func(ctx context.Context) error {
		err := s.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		// Refused by one of the webhooks is answered, too.
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return err
	})
}

// TenantsReady returns an error unless there are at least n Tenants and all are Ready.
func (s *Environment) TenantsReady(ctx context.Context, n int) error {
	var list v1beta1.TenantList
	if err := s.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing Tenants: %w", err)
	}
	ready := 0
	for i := range list.Items {
		if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1beta1.ConditionReady) {
			ready++
		}
	}
	if ready < max(n, len(list.Items)) {
		return fmt.Errorf("%d of %d Tenants are Ready, want %d", ready, len(list.Items), n)
	}
	return nil
}

// Leader returns the running replica that the Lease names, or nil if it names none.
func (s *Environment) Leader(ctx context.Context) (*env.Replica, error) {
	lease, err := leasehold.ElectionLease(ctx, s.Client)
	if err != nil {
		return nil, err
	}
	if r := leasehold.Holder(lease, s.Installation.Replicas()); r != nil && r.Running() {
		return r, nil
	}
	return nil, nil
}

// AwaitLeader returns the leader as soon as there is one that runs.
func (s *Environment) AwaitLeader(ctx context.Context) (leader *env.Replica, err error) {
	err = within(ctx, "one of the replicas to lead", func(ctx context.Context) (err error) {
		if leader, err = s.Leader(ctx); err == nil && leader == nil {
			err = errors.New("the holder of the Lease does not run")
		}
		return err
	})
	return leader, err
}

// Stop ends the replicas and the control plane. It is safe to call more than once.
func (s *Environment) Stop(ctx context.Context) error {
	var errs []error
	if s.Installation != nil {
		errs = append(errs, s.Installation.Stop(ctx))
	}
	if s.Plane != nil {
		errs = append(errs, s.Plane.Stop())
	}
	return errors.Join(errs...)
}

// within calls Await with the period and the limit of all that is started here.
func within(ctx context.Context, what string, ask func(context.Context) error) error {
	return Await(ctx, poll, patience, what, ask)
}

// Await calls `ask` periodically until it returns no error, for at most the limit. The error names
// what was waited for and has the last error.
func Await(ctx context.Context, every, limit time.Duration, what string, ask func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, every, limit, true, func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		if err == nil || ctx.Err() == nil {
			last = err // what the end of the time has cut short says nothing
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, last))
	}
	return nil
}
