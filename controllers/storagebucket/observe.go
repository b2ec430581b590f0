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

// maxTimeout bounds the time of a reconcile with an endpoint, which costs a worker as long. The CRD has
// the same limit, and objects may be older than it.
const maxTimeout = 15 * time.Second

// owner classifies the owner of a bucket by its tags.
type owner int

const (
	ownerUnknown owner = iota
	// ownerSelf means that the tag has the UID of this StorageBucket.
	ownerSelf
	// ownerOther means that the tag has the UID of another StorageBucket.
	ownerOther
	// ownerNone means that the bucket has tags, and not this one.
	ownerNone
	// ownerUntagged means that the bucket has no tags at all.
	ownerUntagged
)

// observation is what a reconcile reads before it decides.
type observation struct {
	// client is nil if nothing could be requested; verdict has the reason.
	client *s3.Client
	// verdict is the result of the probe.
	verdict s3.Verdict
	// owner is read from the tags of a managed bucket that exists.
	owner owner
	// secretVersion is the resource version of the Secret, or "" without a Secret.
	secretVersion string
	// took is the duration of the requests, or zero if none was sent.
	took time.Duration
	// lacking is true if a Secret or a ConfigMap, or a key in it, is missing or not valid; lost is true
	// if the object itself does not exist.
	lacking, lost bool
	// namespace is that of a terminating StorageBucket if it is terminating too.
	namespace *corev1.Namespace
}

func (o observation) close() {
	if o.client != nil {
		o.client.Close()
	}
}

// observe probes the bucket and reads the owner of a managed bucket from its tags. It reads the
// namespace of a terminating StorageBucket live, and sends no request for a bucket that will stay.
func (r *Reconciler) observe(ctx context.Context, b *v1beta1.StorageBucket) (o observation, err error) {
	if !b.DeletionTimestamp.IsZero() {
		if o.namespace, err = r.terminatingNamespace(ctx, b.Namespace); err != nil || !removes(b) {
			return o, err
		}
	}
	if err := r.connect(ctx, b, &o); err != nil || o.client == nil {
		return o, err
	}
	began := r.Clock.Now()
	o.verdict = o.client.Probe(ctx)
	if b.Spec.ManagementPolicy == v1beta1.BucketManage && o.verdict.OK() {
		if o.owner, err = ownerOf(ctx, o.client, b); err != nil {
			o.verdict = *s3.VerdictOf(err)
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
		ns = &corev1.Namespace{}
		ns.Name = name
		return ns, nil
	case ns.DeletionTimestamp.IsZero():
		return nil, nil
	}
	return ns, nil
}

// ownerOf reads the owner of a bucket from its tag. The error has a verdict.
func ownerOf(ctx context.Context, c *s3.Client, b *v1beta1.StorageBucket) (owner, error) {
	uid, tagged, err := c.Tag(ctx, v1beta1.BucketTagOwner)
	switch {
	case err != nil:
		return ownerUnknown, err
	case uid == string(b.UID):
		return ownerSelf, nil
	case uid != "":
		return ownerOther, nil
	case tagged:
		return ownerNone, nil
	}
	return ownerUntagged, nil
}

// connect sets the client for the bucket, or the verdict that prevents one. It reads the Secret and
// the ConfigMap of the spec from the StorageBucket's own namespace and from the API server, so
// rotated credentials take effect at once and no Secret is cached.
func (r *Reconciler) connect(ctx context.Context, b *v1beta1.StorageBucket, o *observation) error {
	name := b.Spec.CredentialsSecretRef.Name
	secret, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Namespace: b.Namespace, Name: name}, &corev1.Secret{})
	if err != nil {
		return fmt.Errorf("reading secret %s: %w", name, err)
	}
	lacks := func(reason, message string, args ...any) error {
		o.lacking, o.verdict = true, s3.Verdict{Reason: reason, Message: fmt.Sprintf(message, args...)}
		return nil
	}
	if secret == nil {
		o.lost = true
		return lacks(v1beta1.ReasonCredentialsNotFound, "Secret %s of spec.credentialsSecretRef does not exist in this "+
			"namespace; create it", name)
	}
	o.secretVersion = secret.ResourceVersion
	credentials, missing := credentialsIn(secret)
	if missing != "" {
		return lacks(v1beta1.ReasonCredentialsNotFound, "Secret %s has no valid value for the key %s; correct it", name,
			missing)
	}
	roots, problem, err := r.roots(ctx, b, o)
	if err != nil {
		return err
	}
	if problem != "" {
		return lacks(v1beta1.ReasonTLSVerificationFailed, "%s", problem)
	}
	rules := r.Rules
	if rules.Cluster, err = r.Cluster(ctx); err != nil {
		return fmt.Errorf("finding the addresses that endpoints may not have: %w", err)
	}
	o.client, err = s3.New(s3.Target{
		Endpoint:    b.Spec.Endpoint,
		Region:      b.Spec.Region,
		Bucket:      b.Spec.BucketName,
		VirtualHost: b.Spec.AddressingStyle == v1beta1.AddressingVirtualHost,
		Roots:       roots,
		Timeout:     min(maxTimeout, time.Duration(b.Spec.Probe.TimeoutSeconds)*time.Second),
	}, credentials, rules)
	if err != nil {
		// Only a spec that the CRD's rules refuse reaches this branch.
		o.client, o.verdict = nil, s3.Verdict{Reason: v1beta1.ReasonEndpointForbidden, Message: "spec.endpoint is not a URL"}
	}
	return nil
}

// credentialsIn returns the credentials in a Secret, or the key that is missing. It trims what many
// tools add to Secrets and S3 keys never contain: a final line break and a byte order mark.
func credentialsIn(secret *corev1.Secret) (s3.Credentials, string) {
	value := func(key string) string {
		return strings.TrimSpace(strings.TrimPrefix(string(secret.Data[key]), "\ufeff"))
	}
	for _, key := range []string{v1beta1.SecretKeyAccessKeyID, v1beta1.SecretKeySecretAccessKey} {
		if value(key) == "" {
			return s3.Credentials{}, key
		}
	}
	for _, key := range []string{v1beta1.SecretKeyAccessKeyID, v1beta1.SecretKeySecretAccessKey,
		v1beta1.SecretKeySessionToken} {
		// An HTTP header cannot contain control characters, and format characters are invisible.
		if strings.ContainsFunc(value(key), func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) }) {
			return s3.Credentials{}, key
		}
	}
	return s3.Credentials{
		AccessKeyID:     value(v1beta1.SecretKeyAccessKeyID),
		SecretAccessKey: value(v1beta1.SecretKeySecretAccessKey),
		SessionToken:    value(v1beta1.SecretKeySessionToken),
	}, ""
}

// roots returns the CA certificates of the spec, or nil if it has none. problem describes invalid
// certificates.
func (r *Reconciler) roots(ctx context.Context, b *v1beta1.StorageBucket,
	o *observation) (roots *x509.CertPool, problem string, err error) {
	ref := b.Spec.CABundleRef
	if ref == nil {
		return nil, "", nil
	}
	bundle, err := reconciler.Get(ctx, r.Live, client.ObjectKey{Namespace: b.Namespace, Name: ref.Name},
		&corev1.ConfigMap{})
	if err != nil {
		return nil, "", fmt.Errorf("reading config map %s: %w", ref.Name, err)
	}
	if bundle == nil {
		o.lost = true
		return nil, fmt.Sprintf("ConfigMap %s of spec.caBundleRef does not exist in this namespace; create it", ref.Name), nil
	}
	text, found := bundle.Data[ref.Key]
	if !found {
		text = string(bundle.BinaryData[ref.Key]) // kubectl puts a file there that is not UTF-8
	}
	if roots, problem = s3.Roots([]byte(text)); problem != "" {
		problem = fmt.Sprintf("the key %s of ConfigMap %s %s", ref.Key, ref.Name, problem)
	}
	return roots, problem, nil
}
