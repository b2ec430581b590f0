package counts

import (
	"context"
	"fmt"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1beta1"
)

const (
	// place is the namespace of the StorageBuckets and MarkdownViews.
	place       = "place"
	credentials = "credentials"
	// rarely is the longest period of probes, in seconds: none comes by itself.
	rarely = 86400
)

func (p *play) newBucket(name string, policy v1beta1.BucketManagementPolicy, end v1beta1.BucketDeletionPolicy) *v1beta1.StorageBucket {
	return &v1beta1.StorageBucket{ObjectMeta: named(place, name), Spec: v1beta1.StorageBucketSpec{
		BucketName: "counts-" + name, Endpoint: p.s3.Endpoint(), ManagementPolicy: policy, DeletionPolicy: end,
		CredentialsSecretRef: v1beta1.SecretReference{Name: credentials},
		Probe:                v1beta1.ProbeSpec{PeriodSeconds: rarely, TimeoutSeconds: 10, FailureThreshold: 1},
	}}
}

// furnish makes what StorageBuckets and MarkdownViews need. A first probe has the
// operator learn which addresses it may not dial.
func (p *play) furnish(ctx context.Context) error {
	account := p.s3.Account()
	secret := &corev1.Secret{ObjectMeta: named(place, credentials), StringData: map[string]string{
		v1beta1.SecretKeyAccessKeyID: account.AccessKey, v1beta1.SecretKeySecretAccessKey: account.SecretKey,
	}}
	first := p.newBucket("first", v1beta1.BucketObserve, v1beta1.BucketRetain)
	for _, act := range []act{
		p.create(&corev1.Namespace{ObjectMeta: named("", place)}), p.create(secret),
		p.outside("first"), p.createReady(first), p.removeGone(first), p.rest,
	} {
		if err := act(ctx); err != nil {
			return fmt.Errorf("furnishing namespace %s: %w", place, err)
		}
	}
	return nil
}

// buckets is the life of a StorageBucket that is only observed, and of two that are
// managed.
func (p *play) buckets(ctx context.Context) error {
	seen := p.newBucket("seen", v1beta1.BucketObserve, v1beta1.BucketRetain)
	kept := p.newBucket("kept", v1beta1.BucketManage, v1beta1.BucketRetain)
	made := p.newBucket("made", v1beta1.BucketManage, v1beta1.BucketDelete)
	edit := func(b *v1beta1.StorageBucket, f func(*v1beta1.ProbeSpec)) act {
		return then(changing(p, b, func(b *v1beta1.StorageBucket) { f(&b.Spec.Probe) }), p.ready(b))
	}
	if err := p.outside("seen")(ctx); err != nil {
		return err
	}
	return p.play(ctx, []phase{
		{"storagebucket.create.observe", 1, []act{p.createReady(seen)}},
		{"storagebucket.create.manage", 1, []act{p.createReady(made)}},
		{"storagebucket.create.retain", 1, []act{p.createReady(kept)}},
		// Nothing outside depends on it, but another spec has another probe.
		{"storagebucket.update", 1, []act{edit(made, func(s *v1beta1.ProbeSpec) { s.TimeoutSeconds = 9 })}},
		{"storagebucket.update.label", 1, []act{changing(p, made, func(b *v1beta1.StorageBucket) { b.Labels = map[string]string{"example.com/a": "b"} })}},
		// A bucket that somebody has removed is missed by the next probe.
		{"storagebucket.drift", 2, []act{p.lost("made"), edit(made, func(s *v1beta1.ProbeSpec) { s.TimeoutSeconds = 8 })}},
		{"storagebucket.delete.retain", 1, []act{p.removeGone(kept)}},
		{"storagebucket.delete", 1, []act{p.removeGone(made)}},
		// From here on it is time that brings work: a probe after 10 s.
		{"storagebucket.update.period", 1, []act{edit(seen, func(s *v1beta1.ProbeSpec) { s.PeriodSeconds = 10 })}},
		{"storagebucket.probe", 1, []act{p.looked(1, "storagebucket")}},
		{"storagebucket.delete.observe", 1, []act{p.removeGone(seen)}},
	})
}

// outside makes a bucket, as its owner would outside of the cluster.
func (p *play) outside(name string) act {
	return func(ctx context.Context) error {
		if err := p.s3.Client().MakeBucket(ctx, "counts-"+name, minio.MakeBucketOptions{}); err != nil {
			return fmt.Errorf("making bucket %s: %w", name, err)
		}
		return nil
	}
}

// lost removes a bucket, likewise.
func (p *play) lost(name string) act {
	return func(ctx context.Context) error {
		if err := p.s3.Client().RemoveBucket(ctx, "counts-"+name); err != nil {
			return fmt.Errorf("removing bucket %s: %w", name, err)
		}
		return nil
	}
}

// looked waits until each of the controllers has made so many passes more.
func (p *play) looked(more int, controllers ...string) act {
	return func(ctx context.Context) error {
		before, err := p.reconciled(ctx)
		if err != nil {
			return err
		}
		return p.await(ctx, "another look", func(ctx context.Context) error {
			now, err := p.reconciled(ctx)
			if err != nil {
				return err
			}
			for _, c := range controllers {
				if n := now.since(before)[c]; n < more {
					return fmt.Errorf("the controller %s has made %d passes since, fewer than %d", c, n, more)
				}
			}
			return nil
		})
	}
}
