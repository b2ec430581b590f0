// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/internal/tree"
	"leasehold.dev/test/leasehold"
)

const (
	// patience bounds waits that depend neither on a Lease nor on the number of Tenants.
	patience = 2 * time.Minute
	poll     = 20 * time.Millisecond
	// workers is the shipped value of --max-concurrent-reconciles, and the number of Tenants
	// created concurrently.
	workers = 4
)

// checkout is a working tree of this repository, with the operator's program.
type checkout struct{ dir, manager string }

// build builds the operator of the checkout at dir into the folder out.
func build(ctx context.Context, dir, out string) (checkout, error) {
	c := checkout{dir: dir, manager: filepath.Join(out, "manager")}
	command := exec.CommandContext(ctx, "go", "build", "-o", c.manager, ".")
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		return c, fmt.Errorf("building the operator in %s: %w\n%s", dir, err, output)
	}
	return c, nil
}

// commit returns the current commit, with -dirty if files are changed; empty without git.
func commit(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	return strings.TrimSpace(string(out))
}

// stockPatch replaces the operator's election by controller-runtime's own.
//
//go:embed stock.patch
var stockPatch []byte

// buildPeer builds the operator of a checkout with controller-runtime's own election, from a copy.
// remove removes the copy.
func buildPeer(ctx context.Context, c checkout) (_ checkout, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "failover-peer-")
	if err != nil {
		return checkout{}, nil, fmt.Errorf("making a folder for the peer: %w", err)
	}
	source, patch := filepath.Join(dir, "source"), filepath.Join(dir, "stock.patch")
	var peer checkout
	if err = os.WriteFile(patch, stockPatch, 0o600); err == nil {
		if err = tree.Plant(ctx, c.dir, source, patch); err == nil {
			peer, err = build(ctx, source, filepath.Join(dir, "bin"))
		}
	}
	if err != nil {
		return checkout{}, nil, errors.Join(fmt.Errorf("making the peer: %w", err), os.RemoveAll(dir))
	}
	return peer, func() error { return os.RemoveAll(dir) }, nil
}

// environment is the operator of one checkout on its own control plane.
type environment struct {
	plane        *env.ControlPlane
	installation *env.Installation
	// client acts as an administrator, without a cache or a rate limit.
	client client.Client
}

// start starts a control plane, installs the operator, and returns when all its replicas are ready, one leads and
// admission answers. args follow the shipped arguments. connect changes how replicas reach the API server; it may be
// nil. The caller must stop the environment.
func start(ctx context.Context, c checkout, o env.Options, replicas int, connect func(*rest.Config),
	args ...string) (e *environment, err error) {
	e = &environment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.stop(context.WithoutCancel(ctx)))
		}
	}()
	config := filepath.Join(c.dir, "config")
	if e.plane, err = leasehold.StartControlPlane(ctx, config, o); err != nil {
		return e, err
	}
	if e.client, err = client.New(e.plane.Config(), client.Options{Scheme: leasehold.Scheme()}); err != nil {
		return e, fmt.Errorf("creating a client: %w", err)
	}
	// Allows reads of metrics without credentials, and S3 servers on this machine.
	args = append([]string{"--metrics-secure=false", "--endpoint-allow-cidr=127.0.0.1/32"}, args...)
	subject := leasehold.Subject(config, c.manager, args...)
	subject.Connect = connect
	if e.installation, err = e.plane.Install(ctx, subject); err != nil {
		return e, err
	}
	for range replicas {
		if _, err = e.installation.Start(ctx); err != nil {
			return e, err
		}
	}
	return e, e.awaitReady(ctx)
}

// awaitReady returns when all running replicas are ready, one of them leads and admission answers.
func (e *environment) awaitReady(ctx context.Context) error {
	probe := &v1beta1.Tenant{Spec: v1beta1.TenantSpec{Namespaces: []v1beta1.NamespaceSuffix{"x"}}}
	probe.Name = "admission"
	return await(ctx, poll, patience, "replicas, a leader and admission", func(ctx context.Context) error {
		for _, r := range e.installation.Replicas() {
			if err := r.Ready(ctx); err != nil && r.Running() {
				return err
			}
		}
		if _, _, err := e.leader(ctx); err != nil {
			return err
		}
		err := e.client.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		// A refusal by a webhook is an answer too.
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return err
	})
}

// leader returns the running replica that the Lease names, and the version of the Lease.
func (e *environment) leader(ctx context.Context) (_ *env.Replica, version string, err error) {
	lease, err := leasehold.ElectionLease(ctx, e.client)
	if err != nil {
		return nil, "", err
	}
	if r := leasehold.Holder(lease, e.installation.Replicas()); r != nil && r.Running() {
		return r, lease.ResourceVersion, nil
	}
	return nil, "", errors.New("the holder of the Lease does not run")
}

// newTenant returns the i-th Tenant of a fleet, with one admin.
func newTenant(i int, namespaces ...v1beta1.NamespaceSuffix) *v1beta1.Tenant {
	name := fmt.Sprintf("fleet-%05d", i)
	return &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.TenantSpec{
		Namespaces: namespaces, Admins: []v1beta1.Subject{{Kind: v1beta1.SubjectGroup, Name: name + "-team"}},
	}}
}

// create creates n Tenants with these namespaces each.
func (e *environment) create(ctx context.Context, n int, namespaces ...v1beta1.NamespaceSuffix) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() error {
			t := newTenant(i, namespaces...)
			// A replica that loses the Lease on a busy machine exits, and its webhooks with it.
			return await(ctx, poll, patience, "admission of "+t.Name, func(ctx context.Context) error {
				return client.IgnoreAlreadyExists(e.client.Create(ctx, t.DeepCopy()))
			})
		})
	}
	return group.Wait()
}

// tenantsReady returns an error unless there are at least n Tenants and all are Ready.
func (e *environment) tenantsReady(ctx context.Context, n int) error {
	var list v1beta1.TenantList
	if err := e.client.List(ctx, &list); err != nil {
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

// stop stops the replicas and the control plane.
func (e *environment) stop(ctx context.Context) error {
	var ended, stopped error
	if e.installation != nil {
		ended = e.installation.Stop(ctx)
	}
	if e.plane != nil {
		stopped = e.plane.Stop()
	}
	return errors.Join(ended, stopped)
}

// await polls check until it succeeds, for at most limit. The error has the description and the
// last error of check.
func await(ctx context.Context, every, limit time.Duration, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, every, limit, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil || ctx.Err() == nil {
			last = err // the deadline interrupted check
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// pass waits.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
