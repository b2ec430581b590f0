package env

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	certManagerGroup = "cert-manager.io"
	// injectCertificate and injectSecret are the annotations by which cert-manager's CA injector
	// finds the CA of a webhook: by Certificate and by Secret.
	injectCertificate = certManagerGroup + "/inject-ca-from"
	injectSecret      = certManagerGroup + "/inject-ca-from-secret"
	// issuedFor is the annotation by which cert-manager names the Certificate of a Secret.
	issuedFor = certManagerGroup + "/certificate-name"
	// certificateLife is longer than any run.
	certificateLife = 365 * 24 * time.Hour
)

// bundleFields are the parents of the caBundles of a kind that has one webhook.
var bundleFields = map[string][]string{
	"CustomResourceDefinition": {"spec", "conversion", "webhook", "clientConfig"},
	"APIService":               {"spec"},
}

// issueCertificates does cert-manager's work where the manifests do not install it: it fills the
// Secrets of the Certificates and injects the CA where annotations request it. One CA signs all,
// whatever the issuers are. The returned objects have no resource of cert-manager, whose kinds
// the API server does not have. The given ones are not changed.
func issueCertificates(objects []*unstructured.Unstructured,
	now time.Time) (rest []*unstructured.Unstructured, notes []string, err error) {
	if slices.ContainsFunc(objects, installsCertManager) {
		return objects, nil, nil
	}
	var certificates []*unstructured.Unstructured
	for _, o := range objects {
		switch {
		case o.GroupVersionKind().Group != certManagerGroup:
			rest = append(rest, o)
		case o.GetKind() == "Certificate":
			certificates = append(certificates, o)
		case o.GetKind() != "Issuer" && o.GetKind() != "ClusterIssuer":
			return nil, nil, fmt.Errorf("%s %s needs cert-manager, which the manifests do not have: "+
				"only Certificate, Issuer and ClusterIssuer are emulated", o.GetKind(), o.GetName())
		}
	}
	if len(certificates) == 0 {
		return rest, nil, nil
	}
	authority, err := newAuthority(now)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the CA of the Certificates: %w", err)
	}
	issued := map[string]map[types.NamespacedName]bool{injectCertificate: {}, injectSecret: {}}
	var names []string
	for _, c := range certificates {
		names = append(names, c.GetNamespace()+"/"+c.GetName())
		secret, err := authority.issue(c)
		if err != nil {
			return nil, nil, fmt.Errorf("issuing Certificate %s/%s: %w", c.GetNamespace(), c.GetName(), err)
		}
		issued[injectCertificate][types.NamespacedName{Namespace: c.GetNamespace(), Name: c.GetName()}] = true
		issued[injectSecret][types.NamespacedName{Namespace: secret.GetNamespace(), Name: secret.GetName()}] = true
		rest = append(slices.DeleteFunc(rest, func(o *unstructured.Unstructured) bool { return isSame(o, secret) }), secret)
	}
	for i, o := range rest {
		if rest[i], err = authority.inject(o, issued); err != nil {
			return nil, nil, fmt.Errorf("injecting the CA into %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return rest, []string{"cert-manager is not among the manifests: the harness issues Certificate " +
		strings.Join(names, ", ")}, nil
}

func installsCertManager(o *unstructured.Unstructured) bool {
	return o.GetKind() == "CustomResourceDefinition" && o.GetName() == "certificates."+certManagerGroup
}

func isSame(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind() == b.GroupVersionKind() && a.GetNamespace() == b.GetNamespace() &&
		a.GetName() == b.GetName()
}

// authority is the CA of an installation.
type authority struct {
	now         time.Time
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	bundle      string // the certificate, as fields of objects have it
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "harness", NotBefore: now}, key)
	if err != nil {
		return nil, err
	}
	text, err := cert.EncodeCertificates(certificate)
	return &authority{now: now, certificate: certificate, key: key, bundle: base64.StdEncoding.EncodeToString(text)}, err
}

// issue returns the Secret of a Certificate.
func (a *authority) issue(c *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	name, _, err := unstructured.NestedString(c.Object, "spec", "secretName")
	if err != nil || name == "" {
		return nil, errors.Join(errors.New("spec.secretName is needed"), err)
	}
	if _, found, _ := unstructured.NestedMap(c.Object, "spec", "keystores"); found {
		return nil, errors.New("spec.keystores is not supported: only tls.crt, tls.key and ca.crt are")
	}
	chain, key, err := a.pair(c)
	if err != nil {
		return nil, err
	}
	secret := &unstructured.Unstructured{Object: map[string]any{"type": string(corev1.SecretTypeTLS),
		"data": map[string]any{
			corev1.TLSCertKey:       base64.StdEncoding.EncodeToString(chain),
			corev1.TLSPrivateKeyKey: base64.StdEncoding.EncodeToString(key),
			"ca.crt":                a.bundle,
		}}}
	secret.SetAPIVersion("v1")
	secret.SetKind("Secret")
	secret.SetNamespace(c.GetNamespace())
	secret.SetName(name)
	labels, _, _ := unstructured.NestedStringMap(c.Object, "spec", "secretTemplate", "labels")
	annotations, _, _ := unstructured.NestedStringMap(c.Object, "spec", "secretTemplate", "annotations")
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[issuedFor] = c.GetName()
	secret.SetLabels(labels)
	secret.SetAnnotations(annotations)
	return secret, nil
}

// pair returns a certificate and its key, in PEM.
func (a *authority) pair(c *unstructured.Unstructured) (chain, key []byte, err error) {
	template, err := a.template(c)
	if err != nil {
		return nil, nil, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating the key: %w", err)
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing: %w", err)
	}
	leaf, err := x509.ParseCertificate(signed)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the signed certificate: %w", err)
	}
	if chain, err = cert.EncodeCertificates(leaf); err != nil {
		return nil, nil, fmt.Errorf("encoding the certificate: %w", err)
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		return nil, nil, fmt.Errorf("encoding the key: %w", err)
	}
	return chain, key, nil
}

// template has the names of a Certificate. Times, usages and keys are the same for all.
func (a *authority) template(c *unstructured.Unstructured) (*x509.Certificate, error) {
	names, _, err := unstructured.NestedStringSlice(c.Object, "spec", "dnsNames")
	if err != nil {
		return nil, err
	}
	addresses, _, err := unstructured.NestedStringSlice(c.Object, "spec", "ipAddresses")
	if err != nil {
		return nil, err
	}
	common, _, err := unstructured.NestedString(c.Object, "spec", "commonName")
	if err != nil {
		return nil, err
	}
	isCA, _, err := unstructured.NestedBool(c.Object, "spec", "isCA")
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: cmp.Or(common, c.GetName())}, DNSNames: names,
		NotBefore: a.certificate.NotBefore, NotAfter: a.now.Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if isCA {
		t.IsCA, t.BasicConstraintsValid, t.ExtKeyUsage = true, true, nil
		t.KeyUsage |= x509.KeyUsageCertSign
	}
	for _, address := range addresses {
		ip := net.ParseIP(address)
		if ip == nil {
			return nil, fmt.Errorf("spec.ipAddresses: %q is no address", address)
		}
		t.IPAddresses = append(t.IPAddresses, ip)
	}
	return t, nil
}

// inject returns a copy of o with the CA, if an annotation requests it. issued has what was issued,
// by the annotation that names it.
func (a *authority) inject(o *unstructured.Unstructured,
	issued map[string]map[types.NamespacedName]bool) (*unstructured.Unstructured, error) {
	for annotation, names := range issued {
		source := o.GetAnnotations()[annotation]
		if source == "" {
			continue
		}
		namespace, name, _ := strings.Cut(source, "/")
		if !names[types.NamespacedName{Namespace: namespace, Name: name}] {
			return nil, fmt.Errorf("the annotation %s names %q, and no Certificate of the manifests gives it",
				annotation, source)
		}
		o = o.DeepCopy()
		return o, setBundles(o, a.bundle)
	}
	return o, nil
}

// setBundles gives all webhooks of an object the CA.
func setBundles(o *unstructured.Unstructured, bundle string) error {
	if parent, ok := bundleFields[o.GetKind()]; ok {
		if _, found, err := unstructured.NestedMap(o.Object, parent...); !found || err != nil {
			return err // a definition without conversion
		}
		return unstructured.SetNestedField(o.Object, bundle, append(slices.Clone(parent), "caBundle")...)
	}
	webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, w := range webhooks {
		fields, ok := w.(map[string]any)
		if !ok {
			return errors.New("a webhook is not an object")
		}
		if err := unstructured.SetNestedField(fields, bundle, "clientConfig", "caBundle"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")
}
