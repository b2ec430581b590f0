package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/performance/environment"
)

const (
	// endpoints is how many the buckets are spread over: more than one, as six of
	// the eight workers may be with one.
	endpoints = 4
	secret    = "keys"
)

// bucketFleet is what became of many buckets.
type bucketFleet struct {
	n      int
	period time.Duration
	// first are the arrivals of the first probes, from the moment when all were due.
	first []time.Duration
	spent cost
	// gaps are how long after each first probe the second of the same bucket came.
	gaps []time.Duration
	// restarted are the arrivals since the next leader was elected, over a period.
	restarted []time.Duration
}

// measureBuckets has all buckets become due at once, looks at their next probes, and then
// at those that follow a restart of the leader.
func measureBuckets(ctx context.Context, b environment.Parameters, n int, period time.Duration) (r bucketFleet, err error) {
	b.Say("%d StorageBuckets: starting a control plane and %d endpoints", n, endpoints)
	s, err := startStore(ctx, b.Clock, endpoints)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	f, err := open(ctx, b, auditv1.LevelMetadata, unlimited...)
	if err != nil {
		return r, err
	}
	defer f.close(ctx, &err)
	r.n, r.period = n, period
	if err := f.rest(ctx, f.replica); err != nil {
		return r, err
	}
	if err := f.createBuckets(ctx, s.endpoints, n, period); err != nil {
		return r, err
	}
	b.Say("%d StorageBuckets: created; now all are due", n)
	if err := f.settle(ctx); err != nil {
		return r, err
	}
	if err := f.firstProbes(ctx, s, &r); err != nil {
		return r, err
	}
	b.Say("%d StorageBuckets: all probed within %.1f s; waiting for their next probes", n, r.first[n-1].Seconds())
	if err := f.secondProbes(ctx, s, &r); err != nil {
		return r, err
	}
	b.Say("%d StorageBuckets: restarting the leader", n)
	return r, f.probesAfterRestart(ctx, s, &r)
}

func (f *testbed) createBuckets(ctx context.Context, endpoints []string, n int, period time.Duration) error {
	keys := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: secret},
		StringData: map[string]string{v1beta1.SecretKeyAccessKeyID: "id", v1beta1.SecretKeySecretAccessKey: "key"},
	}
	if err := f.Client.Create(ctx, keys); err != nil {
		return fmt.Errorf("creating Secret %s: %w", secret, err)
	}
	return each(ctx, n, func(ctx context.Context, i int) error {
		name := member("bucket", i)
		b := &v1beta1.StorageBucket{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
			Spec: v1beta1.StorageBucketSpec{
				BucketName: name, Endpoint: endpoints[i%len(endpoints)],
				CredentialsSecretRef: v1beta1.SecretReference{Name: secret},
				Probe:                v1beta1.ProbeSpec{PeriodSeconds: int32(period / time.Second)},
			},
		}
		if err := f.Client.Create(ctx, b); err != nil {
			return fmt.Errorf("creating StorageBucket %s: %w", name, err)
		}
		return nil
	})
}

// firstProbes lets the replica lead: what was never probed is due at once.
func (f *testbed) firstProbes(ctx context.Context, s *store, r *bucketFleet) error {
	from, err := f.bookmark()
	if err != nil {
		return err
	}
	if err := f.lead(ctx); err != nil {
		return err
	}
	if err := f.awaitProbes(ctx, s, r.n); err != nil {
		return err
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	began, err := f.led(ctx)
	if err != nil {
		return err
	}
	for _, a := range s.from(0)[:r.n] {
		r.first = append(r.first, a.at.Sub(began))
	}
	r.spent, err = f.costSince(from)
	return err
}

// secondProbes waits until each bucket has been probed twice.
func (f *testbed) secondProbes(ctx context.Context, s *store, r *bucketFleet) error {
	if err := f.awaitProbes(ctx, s, 2*r.n); err != nil {
		return err
	}
	r.gaps = gaps(s.from(0))
	return nil
}

// gaps are how long after the first arrival of each bucket its second one came; a bucket
// that came once has none.
func gaps(arrivals []arrival) []time.Duration {
	var list []time.Duration
	first, again := map[string]time.Time{}, map[string]bool{}
	for _, a := range arrivals {
		at, known := first[a.bucket]
		switch {
		case !known:
			first[a.bucket] = a.at
		case !again[a.bucket]:
			again[a.bucket] = true
			list = append(list, a.at.Sub(at))
		}
	}
	return list
}

// probesAfterRestart looks at the arrivals of a period that begins with another leader.
func (f *testbed) probesAfterRestart(ctx context.Context, s *store, r *bucketFleet) error {
	if _, err := f.replica.Stop(ctx); err != nil {
		return fmt.Errorf("stopping the leader: %w", err)
	}
	seen := s.count()
	if err := f.replica.Restart(); err != nil {
		return err
	}
	if err := f.AwaitReady(ctx); err != nil {
		return err
	}
	began, err := f.led(ctx)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("watching probes after a restart: %w", ctx.Err())
	case <-f.bench.Clock.After(r.period):
	}
	for _, a := range s.from(seen) {
		r.restarted = append(r.restarted, a.at.Sub(began))
	}
	return nil
}

// awaitProbes returns when so many probes have arrived in all.
func (f *testbed) awaitProbes(ctx context.Context, s *store, n int) error {
	stalled := newStall(f.bench.Clock)
	for {
		count := s.count()
		switch {
		case count >= n:
			return nil
		case stalled.reached(count):
			return fmt.Errorf("only %d of %d probes have arrived, and none for %s", count, n, patience)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d probes, of which %d have arrived: %w", n, count, ctx.Err())
		case <-f.bench.Clock.After(glance):
		}
	}
}
