package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
)

const (
	// observed is how many StorageBuckets are probed every probePeriod seconds, the shortest
	// period that the API allows, and latency how long each answer takes. Together they keep
	// all workers busy that one endpoint may have, and more probes become due in a pause.
	observed    = 300
	probePeriod = 10
	latency     = 500 * time.Millisecond
	// busy is how many requests are under way at least when the leader is paused.
	busy       = 3
	bucketName = "pauses"
	secretName = "keys"
)

// outside is an S3 server that a pair's leader calls, behind a proxy that records which
// replica sent each request.
type outside struct {
	server *env.S3Server
	proxy  *fault.Proxy
}

// startOutside starts the server and makes the StorageBuckets that refer to it. The pair stops
// the server.
func (p *pair) startOutside(ctx context.Context, _ plan) (err error) {
	o := &outside{}
	p.outside = o
	if o.server, err = env.StartS3(ctx, env.S3Options{}); err != nil {
		return err
	}
	if err := o.server.Client().MakeBucket(ctx, bucketName, minio.MakeBucketOptions{}); err != nil {
		return fmt.Errorf("making a bucket: %w", err)
	}
	o.proxy, err = fault.NewProxy(fault.Options{Upstream: o.server.Endpoint(), Clock: p.clock, Peer: p.owner})
	if err != nil {
		return err
	}
	o.proxy.Inject(fault.Rule{Name: "slow", Fault: fault.Delay{At: fault.AfterAnswer, For: latency}})
	account := o.server.Account()
	keys := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: secretName},
		StringData: map[string]string{v1beta1.SecretKeyAccessKeyID: account.AccessKey,
			v1beta1.SecretKeySecretAccessKey: account.SecretKey},
	}
	if err := p.environment.Client.Create(ctx, keys); err != nil {
		return fmt.Errorf("creating Secret %s: %w", secretName, err)
	}
	for i := range observed {
		b := &v1beta1.StorageBucket{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("bucket-%03d", i)},
			Spec: v1beta1.StorageBucketSpec{
				BucketName: bucketName, Endpoint: o.proxy.URL(),
				CredentialsSecretRef: v1beta1.SecretReference{Name: secretName},
				Probe:                v1beta1.ProbeSpec{PeriodSeconds: probePeriod},
			},
		}
		if err := p.environment.Client.Create(ctx, b); err != nil {
			return fmt.Errorf("creating StorageBucket %s: %w", b.Name, err)
		}
	}
	return nil
}

// owner is the name of the replica that opened the connection between these addresses; "" if
// none is known to have.
func (p *pair) owner(client, server string) string {
	for _, r := range p.environment.Installation.Replicas() {
		if r.Owns(client, server) {
			return r.Name()
		}
	}
	return ""
}

func (o *outside) stop() error {
	var errs []error
	if o.proxy != nil {
		errs = append(errs, o.proxy.Close())
	}
	if o.server != nil {
		errs = append(errs, o.server.Stop())
	}
	return errors.Join(errs...)
}
