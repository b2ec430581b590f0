// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/storagebucket/s3"
)

// maxKey bounds a key of the Secret in bytes: the signer copies it many times. Tokens of AWS have up to 4,096.
const maxKey = 8 << 10

// maxTimeout bounds the time of a worker with an endpoint, as the CRD does. Objects may be older than it.
const maxTimeout = 15 * time.Second

// observation is what a reconcile reads before it decides.
type observation struct {
	bucket *v1beta1.StorageBucket
	// orphaned is true if the StorageBucket was deleted with --cascade=orphan.
	orphaned bool
	// client is nil if nothing could be requested; verdict, the result of the probe, has the reason.
	client  *s3.Client
	verdict s3.Verdict
	// tags are those of a managed bucket that exists.
	tags          map[string]string
	secretVersion string // "" without a Secret
	// took is the duration of the requests, or zero if none was sent.
	took time.Duration
	// lacking means that a Secret or a ConfigMap, or a key in it, is missing or not valid; lost, that
	// the object itself does not exist.
	lacking, lost bool
	// namespace is that of a terminating StorageBucket if it is terminating too.
	namespace *corev1.Namespace
}

func (o *observation) lacks(lost bool, reason, message string, args ...any) {
	o.lacking, o.lost, o.verdict = true, lost, s3.Verdict{Reason: reason, Message: fmt.Sprintf(message, args...)}
}

// observe probes the bucket and reads the tags of a managed bucket. It reads the namespace of a
// terminating StorageBucket live, and sends no request for a bucket that will stay.
func (r *Reconciler) observe(ctx context.Context, b *v1beta1.StorageBucket) (o *observation, err error) {
	o = &observation{bucket: b, orphaned: r.probes.isOrphaned(b)}
	if !b.DeletionTimestamp.IsZero() {
		if o.namespace, err = r.terminatingNamespace(ctx, b.Namespace); err != nil || !o.removes() {
			return o, err
		}
	}
	if err := r.connect(ctx, b, o); err != nil || o.client == nil {
		return o, err
	}
	began := r.Clock.Now()
	o.verdict = o.client.Probe(ctx)
	if b.Spec.ManagementPolicy == v1beta1.BucketManage && o.verdict.OK() {
		o.tags, err = o.client.Tags(ctx)
		if answer, ok := errors.AsType[s3.Error](err); ok {
			o.verdict = answer.Verdict
		}
	}
	o.took = r.Clock.Since(began)
	// A request that was canceled because the operator stops proves nothing about the bucket.
	if ctx.Err() != nil {
		return o, fmt.Errorf("probing the bucket: %w", ctx.Err())
	}
	return o, nil
}

// terminatingNamespace returns a namespace if it is terminating, also if it is gone before its
// contents. It returns nil for another one.
func (r *Reconciler) terminatingNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	ns, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Name: name}, &corev1.Namespace{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	case ns == nil:
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
	case ns.DeletionTimestamp.IsZero():
		return nil, nil
	}
	return ns, nil
}

// connect sets the client for the bucket, or the verdict that prevents one. It reads the Secret and the
// ConfigMap from the StorageBucket's own namespace, and live: rotated credentials take effect at once.
func (r *Reconciler) connect(ctx context.Context, b *v1beta1.StorageBucket, o *observation) error {
	name := b.Spec.CredentialsSecretRef.Name
	secret, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Namespace: b.Namespace, Name: name}, &corev1.Secret{})
	if err != nil {
		return fmt.Errorf("reading secret %s: %w", name, err)
	}
	if secret == nil {
		o.lacks(true, v1beta1.ReasonCredentialsNotFound, "the Secret %s that spec.credentialsSecretRef names "+
			"does not exist in this namespace; create the Secret", name)
		return nil
	}
	o.secretVersion = secret.ResourceVersion
	credentials, invalid := credentialsIn(secret)
	if invalid != "" {
		o.lacks(false, v1beta1.ReasonCredentialsNotFound, "in the Secret %s the value of the key %s is missing, "+
			"invalid or longer than %d KiB; correct the value", name, invalid, maxKey>>10)
		return nil
	}
	roots, err := r.roots(ctx, b, o)
	if err != nil || o.lacking {
		return err
	}
	rules := r.Rules
	if rules.Cluster, err = r.Cluster(ctx); err != nil {
		return fmt.Errorf("finding the addresses that endpoints must not resolve to: %w", err)
	}
	target := s3.Target{
		Region:      b.Spec.Region,
		Bucket:      b.Spec.BucketName,
		VirtualHost: b.Spec.AddressingStyle == v1beta1.AddressingVirtualHost,
		Roots:       roots,
		Timeout:     min(maxTimeout, time.Duration(b.Spec.Probe.TimeoutSeconds)*time.Second),
	}
	o.verdict = s3.Verdict{Reason: v1beta1.ReasonEndpointForbidden, Message: "spec.endpoint is not a URL"}
	if target.Endpoint, err = url.Parse(b.Spec.Endpoint); err == nil { // the CRD's rules ensure it
		o.client = s3.New(target, credentials, rules)
	}
	return nil
}

// credentialsIn returns the credentials in a Secret, or the key without a valid value. It trims what
// many tools add to Secrets and S3 keys never contain: a final line break and a byte order mark.
func credentialsIn(secret *corev1.Secret) (c s3.Credentials, invalid string) {
	value := func(key string) string {
		text := strings.TrimSpace(strings.TrimPrefix(string(secret.Data[key]), "\ufeff"))
		// An HTTP header cannot contain control characters, and format characters are invisible.
		isInvalid := strings.ContainsFunc(text, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) })
		if invalid == "" && (isInvalid || len(text) > maxKey || text == "" && key != v1beta1.SecretKeySessionToken) {
			invalid = key
		}
		return text
	}
	c.AccessKeyID, c.SecretAccessKey = value(v1beta1.SecretKeyAccessKeyID), value(v1beta1.SecretKeySecretAccessKey)
	c.SessionToken = value(v1beta1.SecretKeySessionToken)
	return c, invalid
}

// roots returns the CA certificates of the spec, or nil if it has none or they cannot be used.
func (r *Reconciler) roots(ctx context.Context, b *v1beta1.StorageBucket, o *observation) (*x509.CertPool, error) {
	ref := b.Spec.CABundleRef
	if ref == nil {
		return nil, nil
	}
	bundle, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Namespace: b.Namespace, Name: ref.Name},
		&corev1.ConfigMap{})
	if err != nil {
		return nil, fmt.Errorf("reading config map %s: %w", ref.Name, err)
	}
	if bundle == nil {
		o.lacks(true, v1beta1.ReasonTLSVerificationFailed, "the ConfigMap %s that spec.caBundleRef names does not "+
			"exist in this namespace; create the ConfigMap", ref.Name)
		return nil, nil
	}
	// kubectl puts a file that is not UTF-8 into the binary data.
	roots, problem := s3.Roots([]byte(cmp.Or(bundle.Data[ref.Key], string(bundle.BinaryData[ref.Key]))))
	if problem != "" {
		o.lacks(false, v1beta1.ReasonTLSVerificationFailed, "the key %s of ConfigMap %s %s", ref.Key, ref.Name, problem)
	}
	return roots, nil
}
