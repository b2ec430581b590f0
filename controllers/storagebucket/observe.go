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

// observation is the result of one probe and the only input of the decision.
type observation struct {
	verdict s3.Verdict
	// secretVersion is the resource version of the Secret, or "" without a Secret.
	secretVersion string
	// owner is read from the tags of a managed bucket that exists.
	owner owner
	// mark is the UID on the bucket of another StorageBucket; "" if it has none.
	mark string
	// took is the duration of the probe, or zero if no request was sent.
	took time.Duration
	// lacking is true if a Secret or a ConfigMap, or a key in it, does not exist.
	lacking bool
}

// connection is a client for a bucket, or the verdict that prevents one.
type connection struct {
	client        *s3.Client // nil if verdict prevents a connection
	secretVersion string
	verdict       s3.Verdict // the reason if client is nil
	// lost is true if a Secret or ConfigMap of the spec does not exist.
	lost    bool
	lacking bool // see observation
}

// lacks returns a connection without an object or key of the spec.
func lacks(secretVersion, reason, message string) *connection {
	return &connection{secretVersion: secretVersion, verdict: s3.Verdict{Reason: reason, Message: message}, lacking: true}
}

func (c *connection) close() {
	if c.client != nil {
		c.client.Close()
	}
}

// connect reads the Secret and the ConfigMap of the spec from the StorageBucket's own
// namespace. It reads from the API server, so rotated credentials take effect at once and
// no Secret is cached.
func (r *Reconciler) connect(ctx context.Context, b *v1beta1.StorageBucket) (*connection, error) {
	name := b.Spec.CredentialsSecretRef.Name
	secret, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Namespace: b.Namespace, Name: name}, &corev1.Secret{})
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", name, err)
	}
	if secret == nil {
		way := lacks("", v1beta1.ReasonCredentialsNotFound,
			fmt.Sprintf("Secret %s of spec.credentialsSecretRef does not exist in this namespace", name))
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
		// Only a spec that the CRD's rules refuse reaches this branch.
		way.verdict = s3.Verdict{Reason: v1beta1.ReasonEndpointForbidden, Message: "spec.endpoint is not a URL"}
	}
	return way, nil
}

// credentialsIn returns the credentials in a Secret, or the key that is missing. It trims
// a final line break, which many tools add to Secrets and S3 keys never contain.
func credentialsIn(secret *corev1.Secret) (s3.Credentials, string) {
	value := func(key string) string { return strings.TrimSpace(string(secret.Data[key])) }
	for _, key := range []string{v1beta1.SecretKeyAccessKeyID, v1beta1.SecretKeySecretAccessKey} {
		if value(key) == "" {
			return s3.Credentials{}, key
		}
	}
	for _, key := range []string{v1beta1.SecretKeyAccessKeyID, v1beta1.SecretKeySecretAccessKey,
		v1beta1.SecretKeySessionToken} {
		// An HTTP header cannot contain control characters.
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

// roots returns the CA certificates of the spec, or nil if it has none. problem describes
// invalid certificates; lost is true if the ConfigMap does not exist.
func (r *Reconciler) roots(ctx context.Context,
	b *v1beta1.StorageBucket) (roots *x509.CertPool, problem string, lost bool, err error) {
	ref := b.Spec.CABundleRef
	if ref == nil {
		return nil, "", false, nil
	}
	bundle, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Namespace: b.Namespace, Name: ref.Name},
		&corev1.ConfigMap{})
	switch {
	case err != nil:
		return nil, "", false, fmt.Errorf("reading config map %s: %w", ref.Name, err)
	case bundle == nil:
		return nil, fmt.Sprintf("ConfigMap %s of spec.caBundleRef does not exist in this namespace", ref.Name), true, nil
	}
	roots = x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(bundle.Data[ref.Key])) {
		return nil, fmt.Sprintf("ConfigMap %s has no PEM certificates under the key %s; correct it", ref.Name, ref.Key),
			false, nil
	}
	return roots, "", false, nil
}

// observe probes the bucket and reads the owner of a managed bucket from its tags.
func (r *Reconciler) observe(ctx context.Context, b *v1beta1.StorageBucket, way *connection) (found observation) {
	found = observation{verdict: way.verdict, secretVersion: way.secretVersion, lacking: way.lacking}
	if way.client == nil {
		return found
	}
	began := r.Clock.Now()
	defer func() { found.took = r.Clock.Since(began) }()
	found.verdict = way.client.Probe(ctx)
	if b.Spec.ManagementPolicy == v1beta1.BucketManage && found.verdict.OK() {
		var failed *s3.Verdict
		found.owner, found.mark, failed = whose(ctx, way.client, b)
		if failed != nil {
			found.verdict = *failed
		}
	}
	return found
}

// timeout returns the time limit for all requests of one visit.
func timeout(b *v1beta1.StorageBucket) time.Duration {
	return time.Duration(b.Spec.Probe.TimeoutSeconds) * time.Second
}

// period returns the interval between two probes.
func period(b *v1beta1.StorageBucket) time.Duration {
	return time.Duration(b.Spec.Probe.PeriodSeconds) * time.Second
}
