package markdownview

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/reporting"
)

// The cache holds digests instead of contents (see cache.go). A reconcile compares the digest of a
// view with those of its children. It reads contents only before a write.

// desired is the digest of a view: one hash for each desired child.
type desired struct {
	// Invalid is the error of an invalid spec; "" if it is valid.
	Invalid string `json:"invalid,omitempty"`
	// Content is the hash of the files, as the status reports it.
	Content string `json:"content,omitempty"`
	// Image is the image of the viewers, as the status reports it.
	Image      string `json:"image,omitempty"`
	ConfigMap  string `json:"configMap,omitempty"`
	Deployment string `json:"deployment,omitempty"`
	Service    string `json:"service,omitempty"`
}

// actual is the digest of a child that exists.
type actual struct {
	// Applied is the hash of the fields that this operator was the last to apply.
	Applied string `json:"applied"`
	// Foreign is true if a map or list of the child has entries of other field managers, which an
	// apply does not remove.
	Foreign bool `json:"foreign,omitempty"`
	// Unreadable is the error of decoding the managed fields; "" if there is none.
	Unreadable string `json:"unreadable,omitempty"`
}

// desiredBy returns the digest of a view, which is complete or from the cache.
func desiredBy(v *v1beta1.MarkdownView, defaultImage string) (desired, error) {
	var d desired
	if found, err := cachedDigest(v, &d); found {
		return d, err
	}
	if errs := validate(v); len(errs) > 0 {
		return desired{Invalid: reporting.Bounded(errs.ToAggregate().Error())}, nil
	}
	d, err := render(v, defaultImage).digest()
	d.Image = imageOf(v, defaultImage)
	return d, err
}

// digest returns the digest of the view from which the children were rendered.
func (c children) digest() (d desired, err error) {
	d.Content = c.hash
	if d.ConfigMap, err = configMapDigest(c.configMap); err != nil {
		return d, err
	}
	if d.Deployment, err = digestOf(c.deployment); err != nil {
		return d, err
	}
	d.Service, err = digestOf(c.service)
	return d, err
}

// configMapDigest hashes the content separately, because views have another type for it.
func configMapDigest(c *corev1ac.ConfigMapApplyConfiguration) (string, error) {
	rest := *c
	rest.Data = nil
	return digestOf([]any{&rest, contentHash(c.Data)})
}

// digestOf returns the hash of an apply configuration. Equal configurations have equal JSON: maps
// are sorted, quantities are canonical, and empty fields are omitted.
func digestOf[C any](config C) (string, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encoding the apply configuration: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// actualConfigMap returns the digest of a ConfigMap, which is complete or from the cache.
func actualConfigMap(live *corev1.ConfigMap) (actual, error) {
	return actualOf(live, corev1ac.ExtractConfigMap, configMapDigest,
		func(owned *corev1ac.ConfigMapApplyConfiguration) bool {
			return prunedConfigMap(live, owned.Data) != nil
		})
}

// actualDeployment returns the digest of a Deployment, which is complete or from the cache.
func actualDeployment(live *appsv1.Deployment) (actual, error) {
	return actualOf(live, appsv1ac.ExtractDeployment, digestOf,
		func(owned *appsv1ac.DeploymentApplyConfiguration) bool {
			return prunedDeployment(live, owned, false) != nil
		})
}

// actualService returns the digest of a Service, which is complete or from the cache.
func actualService(live *corev1.Service) (actual, error) {
	return actualOf(live, corev1ac.ExtractService, digestOf,
		func(owned *corev1ac.ServiceApplyConfiguration) bool { return prunedService(live, owned) != nil })
}

func actualOf[L metav1.Object, C any](live L, extract func(L, string) (C, error), digest func(C) (string, error),
	hasForeign func(owned C) bool) (d actual, err error) {
	if found, err := cachedDigest(live, &d); found {
		return d, err
	}
	owned, err := extract(live, string(apply.FieldOwner))
	if err != nil {
		return actual{Unreadable: reporting.Bounded(err.Error())}, nil
	}
	d.Applied, err = digest(owned)
	d.Foreign = hasForeign(owned)
	return d, err
}

// operationDigest marks the managed-fields entry in which the cache stores a digest. The API server
// stores only Apply and Update, so no user can forge one.
const operationDigest metav1.ManagedFieldsOperationType = "Digest"

// cachedDigest decodes the digest of an object from the cache. It returns false for a complete
// object.
func cachedDigest(o metav1.Object, into any) (found bool, err error) {
	fields := o.GetManagedFields()
	if len(fields) != 1 || fields[0].Operation != operationDigest {
		return false, nil
	}
	if err := json.Unmarshal(fields[0].FieldsV1.GetRawBytes(), into); err != nil {
		return true, fmt.Errorf("reading the cached digest of %s: %w", o.GetName(), err)
	}
	return true, nil
}

// setDigest replaces the managed fields, from which the digest was computed, with the digest.
func setDigest(o metav1.Object, digest any) error {
	text, err := json.Marshal(digest)
	if err != nil {
		return fmt.Errorf("encoding the digest of %s: %w", o.GetName(), err)
	}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Operation: operationDigest,
		FieldsV1: metav1.NewFieldsV1(string(text))}})
	return nil
}
