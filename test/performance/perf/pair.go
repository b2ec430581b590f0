// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/s3server"
)

const (
	// observed is the number of StorageBuckets, each probed every probePeriod seconds, the shortest
	// period of the API. latency is the time of each response. Together some ten requests are under
	// way at any time, and more probes become due in a pause. Each is a connection, whose owner is
	// searched among all sockets, so more of them would keep the machine busy.
	observed    = 30
	probePeriod = 10
	latency     = 3 * time.Second
	bucketName  = "pauses"
	secretName  = "keys"
)

// pair is two replicas on their own control plane, each behind a proxy.
type pair struct {
	*environment
	name    string // of the subject
	plan    plan
	proxies []*fault.Proxy // of the replicas, in the same order
	random  *rand.Rand
	broken  int // bindings broken by the load
	// s3 is a server that the leader calls, behind a proxy that records the sender of each request.
	// Both are nil if the leader calls none.
	s3    *s3server.Server
	calls *fault.Proxy
	// lost is a replica that was stopped on purpose and not restarted, and gaveUp the number of
	// replicas that ended by themselves.
	lost   *env.Replica
	gaveUp int
}

// start starts the control plane and the replicas, and creates their objects.
func (p *pair) start(ctx context.Context, c checkout) (err error) {
	var refused error
	p.environment, err = start(ctx, c, env.Options{}, 2, func(config *rest.Config) {
		o, err := fault.APIOptions(config)
		if err == nil {
			o.Kubernetes = false // pass watches through unparsed, which is cheaper
			var proxy *fault.Proxy
			if proxy, err = fault.NewProxy(o); err == nil {
				proxy.Connect(config)
				p.proxies = append(p.proxies, proxy)
			}
		}
		refused = errors.Join(refused, err)
	},
		fmt.Sprintf("--leader-elect-lease-duration=%s", p.plan.lease),
		fmt.Sprintf("--leader-elect-renew-deadline=%s", p.plan.renew),
		fmt.Sprintf("--leader-elect-retry-period=%s", p.plan.retry))
	if err := errors.Join(err, refused); err != nil {
		return err
	}
	if p.plan.s3 {
		if err := p.startS3(ctx); err != nil {
			return err
		}
	}
	if err := p.create(ctx, p.plan.tenants, "dev"); err != nil {
		return err
	}
	return await(ctx, poll, patience, "all Tenants to be Ready", func(ctx context.Context) error {
		return p.tenantsReady(ctx, p.plan.tenants)
	})
}

// startS3 starts the S3 server and makes the StorageBuckets that refer to it.
func (p *pair) startS3(ctx context.Context) (err error) {
	if p.s3, err = s3server.Start(ctx, s3server.Options{}); err != nil {
		return err
	}
	if err := p.s3.Client().MakeBucket(ctx, bucketName, minio.MakeBucketOptions{}); err != nil {
		return fmt.Errorf("making a bucket: %w", err)
	}
	if p.calls, err = fault.NewProxy(fault.Options{Upstream: p.s3.Endpoint(), Peer: p.owner}); err != nil {
		return err
	}
	p.calls.Inject(fault.Rule{Name: "slow", Fault: fault.Delay{At: fault.AfterAnswer, For: latency}})
	account := p.s3.Account()
	objects := []client.Object{&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: secretName},
		StringData: map[string]string{v1beta1.SecretKeyAccessKeyID: account.AccessKey,
			v1beta1.SecretKeySecretAccessKey: account.SecretKey},
	}}
	for i := range observed {
		objects = append(objects, &v1beta1.StorageBucket{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("bucket-%03d", i)},
			Spec: v1beta1.StorageBucketSpec{
				BucketName: bucketName, Endpoint: p.calls.URL(),
				CredentialsSecretRef: v1beta1.SecretReference{Name: secretName},
				Probe:                v1beta1.ProbeSpec{PeriodSeconds: probePeriod},
			},
		})
	}
	for _, o := range objects {
		if err := p.client.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// owner returns the name of the replica that opened the connection between these addresses, or "".
func (p *pair) owner(client, server string) string {
	replicas := p.installation.Replicas()
	if i := slices.IndexFunc(replicas, func(r *env.Replica) bool { return r.Owns(client, server) }); i >= 0 {
		return replicas[i].Name()
	}
	return ""
}

func (p *pair) stop(ctx context.Context) error {
	var errs []error
	if p.calls != nil {
		errs = append(errs, p.calls.Close())
	}
	if p.s3 != nil {
		errs = append(errs, p.s3.Stop())
	}
	if p.environment != nil {
		errs = append(errs, p.environment.stop(ctx))
	}
	for _, proxy := range p.proxies {
		errs = append(errs, proxy.Close())
	}
	return errors.Join(errs...)
}

// settle starts replicas that do not run, waits until both are ready and the Lease is renewed, and
// returns the leader.
func (p *pair) settle(ctx context.Context) (leader *env.Replica, err error) {
	before := ""
	err = await(ctx, poll, patience, "two replicas and a Lease that is renewed", func(ctx context.Context) error {
		for _, r := range p.installation.Replicas() {
			if err := p.revive(r); err != nil {
				return err
			}
			if err := r.Ready(ctx); err != nil {
				return err
			}
		}
		now, version, err := p.leader(ctx)
		if err != nil {
			return err
		}
		if now != leader {
			leader, before = now, version
		}
		if version == before {
			return errors.New("the Lease is as it was")
		}
		return nil
	})
	return leader, err
}

// revive restarts a replica that has ended, and counts it in gaveUp unless it was lost on purpose.
func (p *pair) revive(r *env.Replica) error {
	if r.Running() {
		return nil
	}
	if r != p.lost {
		p.gaveUp++
	}
	p.lost = nil
	return r.Restart()
}

// proxyOf returns the proxy between a replica and the API server.
func (p *pair) proxyOf(r *env.Replica) *fault.Proxy {
	return p.proxies[slices.Index(p.installation.Replicas(), r)]
}

// load removes the subjects of one binding after the other, at an interval, until end is called, which
// returns its errors. Each replica that leads, or assumes that it does, restores them with one write.
func (p *pair) load(ctx context.Context, every time.Duration) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() {
		for pass(ctx, every) == nil {
			binding := &rbacv1.ClusterRoleBinding{}
			binding.Name = "leasehold:tenant-reader:" + newTenant(p.broken%p.plan.tenants).Name
			p.broken++
			err := p.client.Patch(ctx, binding, client.RawPatch(types.MergePatchType, []byte(`{"subjects":null}`)))
			if err != nil && ctx.Err() == nil {
				over <- fmt.Errorf("breaking what the operator has made: %w", err)
				return
			}
		}
		over <- nil
	}()
	return func() error {
		cancel()
		return <-over
	}
}

// logs returns the last lines of the replicas' logs.
func (p *pair) logs() string {
	var all strings.Builder
	if p.environment == nil || p.installation == nil {
		return ""
	}
	for _, r := range p.installation.Replicas() {
		fmt.Fprintf(&all, "the end of the log of %s, running: %t\n%s\n", r.Name(), r.Running(), r.LogTail(15))
	}
	return all.String()
}
