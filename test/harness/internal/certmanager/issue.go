// SPDX-License-Identifier: Apache-2.0

// Package certmanager stands in for cert-manager: it issues the certificates that an operator's manifests request,
// and injects their CA.
package certmanager

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Group is the API group of cert-manager.
	Group = "cert-manager.io"
	// injectCertificate and injectSecret are the annotations with which cert-manager's CA injector
	// finds the CA of a webhook: by Certificate and by Secret.
	injectCertificate = Group + "/inject-ca-from"
	injectSecret      = Group + "/inject-ca-from-secret"
	// issuedFor is the annotation in which cert-manager names the Certificate of a Secret.
	issuedFor = Group + "/certificate-name"
	// certificateLife is longer than any run.
	certificateLife = 365 * 24 * time.Hour
)

// Issue replaces cert-manager where the manifests do not install it: it fills the
// Secrets of the Certificates and injects the CA where annotations request it. One CA signs all,
// whatever the issuers are. The returned objects have no resource of cert-manager, whose kinds the
// API server does not have. The given ones are not changed.
func Issue(objects []*unstructured.Unstructured,
	now time.Time) (rest []*unstructured.Unstructured, notes []string, err error) {
	if slices.ContainsFunc(objects, installsCertManager) {
		return objects, nil, nil
	}
	var certificates []*unstructured.Unstructured
	for _, o := range objects {
		switch {
		case o.GroupVersionKind().Group != Group:
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
	bundles := caBundles{}
	var names []string
	for _, c := range certificates {
		names = append(names, c.GetNamespace()+"/"+c.GetName())
		secret, err := authority.issue(c)
		if err != nil {
			return nil, nil, fmt.Errorf("issuing Certificate %s/%s: %w", c.GetNamespace(), c.GetName(), err)
		}
		bundles.add(secret, authority.bundle)
		rest = append(slices.DeleteFunc(rest, func(o *unstructured.Unstructured) bool { return isSame(o, secret) }), secret)
	}
	for i, o := range rest {
		if rest[i], err = bundles.inject(o); err != nil {
			return nil, nil, fmt.Errorf("injecting the CA into %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return rest, []string{"cert-manager is not among the manifests: the harness issues Certificate " +
		strings.Join(names, ", ")}, nil
}

func installsCertManager(o *unstructured.Unstructured) bool {
	return o.GetKind() == "CustomResourceDefinition" && o.GetName() == "certificates."+Group
}

func isSame(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind() == b.GroupVersionKind() && client.ObjectKeyFromObject(a) == client.ObjectKeyFromObject(b)
}

// caBundles are CAs as fields of objects have them, by the annotation that requests one, and its value.
type caBundles map[[2]string]string

// add adds the CA of a Secret that was issued for a Certificate.
func (b caBundles) add(secret *unstructured.Unstructured, bundle string) {
	key := client.ObjectKeyFromObject(secret)
	b[[2]string{injectSecret, key.String()}] = bundle
	key.Name = secret.GetAnnotations()[issuedFor]
	b[[2]string{injectCertificate, key.String()}] = bundle
}

// inject returns a copy of an object with the CA that an annotation requests, or else the object.
func (b caBundles) inject(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for _, annotation := range []string{injectCertificate, injectSecret} {
		source := o.GetAnnotations()[annotation]
		if source == "" {
			continue
		}
		bundle, known := b[[2]string{annotation, source}]
		if !known {
			return nil, fmt.Errorf("the annotation %s names %q, and no Certificate of the manifests gives it",
				annotation, source)
		}
		injected := o.DeepCopy()
		configs, err := ClientConfigs(injected)
		for _, config := range configs {
			config["caBundle"] = bundle
		}
		return injected, err
	}
	return o, nil
}

// authority is the CA of an installation.
type authority struct {
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
	return &authority{certificate: certificate, key: key, bundle: base64.StdEncoding.EncodeToString(text)}, err
}

// certificateSpec is the part of a Certificate's spec that the harness reads.
type certificateSpec struct {
	SecretName     string    `json:"secretName"`
	CommonName     string    `json:"commonName"`
	DNSNames       []string  `json:"dnsNames"`
	IPAddresses    []string  `json:"ipAddresses"`
	IsCA           bool      `json:"isCA"`
	Keystores      *struct{} `json:"keystores"`
	SecretTemplate struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"secretTemplate"`
}

// issue returns the Secret of a Certificate.
func (a *authority) issue(c *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var read struct {
		Spec certificateSpec `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object, &read); err != nil {
		return nil, err
	}
	spec := read.Spec
	switch {
	case spec.SecretName == "":
		return nil, errors.New("spec.secretName is needed")
	case spec.Keystores != nil:
		return nil, errors.New("spec.keystores is not supported: only tls.crt, tls.key and ca.crt are")
	}
	spec.CommonName = cmp.Or(spec.CommonName, c.GetName())
	chain, key, err := a.pair(spec)
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
	secret.SetName(spec.SecretName)
	annotations := map[string]string{}
	maps.Copy(annotations, spec.SecretTemplate.Annotations)
	annotations[issuedFor] = c.GetName()
	secret.SetLabels(spec.SecretTemplate.Labels)
	secret.SetAnnotations(annotations)
	return secret, nil
}

// pair returns a certificate and its key, in PEM.
func (a *authority) pair(spec certificateSpec) (chain, key []byte, err error) {
	template, err := a.template(spec)
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
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		return nil, nil, fmt.Errorf("encoding the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: signed}), key, nil
}

// template has the names of a Certificate. Times, usages and keys are the same for all.
func (a *authority) template(spec certificateSpec) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: spec.CommonName}, DNSNames: spec.DNSNames,
		NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotBefore.Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if spec.IsCA {
		t.IsCA, t.BasicConstraintsValid, t.ExtKeyUsage = true, true, nil
		t.KeyUsage |= x509.KeyUsageCertSign
	}
	for _, address := range spec.IPAddresses {
		ip := net.ParseIP(address)
		if ip == nil {
			return nil, fmt.Errorf("spec.ipAddresses: %q is no address", address)
		}
		t.IPAddresses = append(t.IPAddresses, ip)
	}
	return t, nil
}

// ClientConfigs returns the parts of an object that have the addresses and the CAs of its webhooks.
func ClientConfigs(o *unstructured.Unstructured) ([]map[string]any, error) {
	parents, path := []any{o.Object}, []string{"clientConfig"}
	switch o.GetKind() {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		webhooks, _, err := unstructured.NestedFieldNoCopy(o.Object, "webhooks")
		if err != nil {
			return nil, err
		}
		parents, _ = webhooks.([]any)
	case "CustomResourceDefinition":
		path = []string{"spec", "conversion", "webhook", "clientConfig"}
	default:
		return nil, nil
	}
	var configs []map[string]any
	for _, parent := range parents {
		fields, ok := parent.(map[string]any)
		if !ok {
			return nil, errors.New("a webhook is not an object")
		}
		config, found, err := unstructured.NestedFieldNoCopy(fields, path...)
		if err != nil {
			return nil, err
		}
		if object, ok := config.(map[string]any); ok {
			configs = append(configs, object)
		} else if found {
			return nil, errors.New("a clientConfig is not an object")
		}
	}
	return configs, nil
}
