package storagebucket

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/storagebucket/s3"
)

// observation is all that one reconcile knows of the bucket.
type observation struct {
	verdict s3.Verdict
	// secretVersion is the version of the Secret that was used; "" if none was.
	secretVersion string
	// owner tells whose a managed bucket is; it is asked where there is one.
	owner owner
	// mark is the UID on the bucket of another StorageBucket; "" if it has none.
	mark string
	// took is how long the probe took; zero where nothing was sent.
	took time.Duration
	// lacking is that a Secret or a ConfigMap, or what it should have, is not there.
	lacking bool
}

// connection is the way to a bucket, or the reason why there is none.
type connection struct {
	client        *s3.Client // nil if there is no way
	secretVersion string
	verdict       s3.Verdict // why not
	// lost: a Secret or ConfigMap that the spec refers to does not exist.
	lost    bool
	lacking bool // see observation
}

// lacks is the connection that is missing something that the spec refers to.
func lacks(secretVersion, reason, message string) *connection {
	return &connection{secretVersion: secretVersion, verdict: s3.Verdict{Reason: reason, Message: message}, lacking: true}
}

func (c *connection) close() {
	if c.client != nil {
		c.client.Close()
	}
}

// connect reads what the spec refers to, in the StorageBucket's own namespace
// and past the cache, so that a rotation is used at once and no Secret is ever
// kept.
func (r *Reconciler) connect(ctx context.Context, b *v1beta1.StorageBucket) (*connection, error) {
	name := b.Spec.CredentialsSecretRef.Name
	secret, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Namespace: b.Namespace, Name: name}, &corev1.Secret{})
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", name, err)
	}
	if secret == nil {
		way := lacks("", v1beta1.ReasonCredentialsNotFound, fmt.Sprintf("Secret %s of spec.credentialsSecretRef does not exist in this namespace", name))
		way.lost = true
		return way, nil
	}
	credentials, missing := credentialsIn(secret)
	if missing != "" {
		return lacks(secret.ResourceVersion, v1beta1.ReasonCredentialsNotFound,
			fmt.Sprintf("Secret %s has no valid value for the key %s; correct it", name, missing)), nil
	}
	roots, problem, lost, err := r.roots(ctx, b)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		way := lacks(secret.ResourceVersion, v1beta1.ReasonTLSVerificationFailed, problem)
		way.lost = lost
		return way, nil
	}
	rules, err := r.Rules(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the addresses that endpoints may not have: %w", err)
	}
	way := &connection{secretVersion: secret.ResourceVersion}
	way.client, err = s3.New(s3.Target{
		Endpoint:    b.Spec.Endpoint,
		Region:      b.Spec.Region,
		Bucket:      b.Spec.BucketName,
		VirtualHost: b.Spec.AddressingStyle == v1beta1.AddressingVirtualHost,
		Roots:       roots,
	}, credentials, rules)
	if err != nil {
		// Only a spec that the CRD's rules refuse comes here.
		way.verdict = s3.Verdict{Reason: v1beta1.ReasonEndpointForbidden, Message: "spec.endpoint is not a URL"}
	}
	return way, nil
}

// credentialsIn are the credentials in a Secret, or the key that is missing. A
// line break at the end comes from how Secrets are often written, never from S3.
func credentialsIn(secret *corev1.Secret) (s3.Credentials, string) {
	value := func(key string) string { return strings.TrimSpace(string(secret.Data[key])) }
	for _, key := range []string{v1beta1.SecretKeyAccessKeyID, v1beta1.SecretKeySecretAccessKey} {
		if value(key) == "" {
			return s3.Credentials{}, key
		}
	}
	for _, key := range []string{v1beta1.SecretKeyAccessKeyID, v1beta1.SecretKeySecretAccessKey, v1beta1.SecretKeySessionToken} {
		// Such a value cannot be sent.
		if strings.ContainsFunc(value(key), unicode.IsControl) {
			return s3.Credentials{}, key
		}
	}
	return s3.Credentials{
		AccessKeyID:     value(v1beta1.SecretKeyAccessKeyID),
		SecretAccessKey: value(v1beta1.SecretKeySecretAccessKey),
		SessionToken:    value(v1beta1.SecretKeySessionToken),
	}, ""
}

// roots are the certificates that the spec refers to, nil if it refers to none,
// or what is wrong with them, and whether that is that the ConfigMap is lost.
func (r *Reconciler) roots(ctx context.Context, b *v1beta1.StorageBucket) (roots *x509.CertPool, problem string, lost bool, err error) {
	ref := b.Spec.CABundleRef
	if ref == nil {
		return nil, "", false, nil
	}
	bundle, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Namespace: b.Namespace, Name: ref.Name}, &corev1.ConfigMap{})
	switch {
	case err != nil:
		return nil, "", false, fmt.Errorf("reading config map %s: %w", ref.Name, err)
	case bundle == nil:
		return nil, fmt.Sprintf("ConfigMap %s of spec.caBundleRef does not exist in this namespace", ref.Name), true, nil
	}
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(bundle.Data[ref.Key])) {
		return nil, fmt.Sprintf("ConfigMap %s has no PEM certificates under the key %s; correct it", ref.Name, ref.Key), false, nil
	}
	return roots, "", false, nil
}

// observe probes the bucket and, where it is managed, asks whose it is.
func (r *Reconciler) observe(ctx context.Context, b *v1beta1.StorageBucket, way *connection) observation {
	found := observation{verdict: way.verdict, secretVersion: way.secretVersion, lacking: way.lacking}
	if way.client == nil {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, timeout(b))
	defer cancel()
	began := r.Clock.Now()
	found.verdict = way.client.Probe(ctx)
	found.took = r.Clock.Since(began)
	if b.Spec.ManagementPolicy == v1beta1.BucketManage && found.verdict.OK() {
		var failed *s3.Verdict
		found.owner, found.mark, failed = whose(ctx, way.client, b)
		if failed != nil {
			found.verdict = *failed
		}
	}
	return found
}

// timeout is how long one group of requests may take.
func timeout(b *v1beta1.StorageBucket) time.Duration {
	return time.Duration(b.Spec.Probe.TimeoutSeconds) * time.Second
}

// period is how long after one probe the next is due.
func period(b *v1beta1.StorageBucket) time.Duration {
	return time.Duration(b.Spec.Probe.PeriodSeconds) * time.Second
}
