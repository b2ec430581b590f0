package env

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	certManagerGroup = "cert-manager.io"
	// injectCertificate and injectSecret are the annotations by which cert-manager's CA injector
	// finds the CA of a webhook: by Certificate and by Secret.
	injectCertificate = certManagerGroup + "/inject-ca-from"
	injectSecret      = certManagerGroup + "/inject-ca-from-secret"
	// issuedFor is the annotation by which cert-manager names the Certificate of a Secret.
	issuedFor = certManagerGroup + "/certificate-name"
)

// issueCertificates does cert-manager's work where the manifests do not install it: it fills the
// Secrets of the Certificates and injects the CA where annotations request it. Each is signed by a CA
// of its own, whatever the issuers are. The returned objects have no resource of cert-manager, whose
// kinds the API server does not have. The given ones are not changed.
func issueCertificates(
	objects []*unstructured.Unstructured,
) (rest []*unstructured.Unstructured, notes []string, err error) {
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
	bundles := caBundles{}
	var names []string
	for _, c := range certificates {
		names = append(names, c.GetNamespace()+"/"+c.GetName())
		secret, bundle, err := issue(c)
		if err != nil {
			return nil, nil, fmt.Errorf("issuing Certificate %s/%s: %w", c.GetNamespace(), c.GetName(), err)
		}
		bundles.add(secret, bundle)
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
	return o.GetKind() == "CustomResourceDefinition" && o.GetName() == "certificates."+certManagerGroup
}

func isSame(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind() == b.GroupVersionKind() && a.GetNamespace() == b.GetNamespace() &&
		a.GetName() == b.GetName()
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
		return injected, setBundles(injected, bundle)
	}
	return o, nil
}

// setBundles gives all webhooks of an object, or the API that it registers, the CA.
func setBundles(o *unstructured.Unstructured, bundle string) error {
	if o.GetKind() == "APIService" {
		return unstructured.SetNestedField(o.Object, bundle, "spec", "caBundle")
	}
	configs, err := clientConfigs(o)
	for _, config := range configs {
		config["caBundle"] = bundle
	}
	return err
}

// certificateSpec is what the harness reads of the spec of a Certificate.
type certificateSpec struct {
	SecretName     string    `json:"secretName"`
	CommonName     string    `json:"commonName"`
	DNSNames       []string  `json:"dnsNames"`
	IPAddresses    []string  `json:"ipAddresses"`
	Keystores      *struct{} `json:"keystores"`
	SecretTemplate struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"secretTemplate"`
}

// issue returns the Secret of a Certificate, and its CA as fields of objects have it.
func issue(c *unstructured.Unstructured) (secret *unstructured.Unstructured, bundle string, err error) {
	var read struct {
		Spec certificateSpec `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object, &read); err != nil {
		return nil, "", err
	}
	spec := read.Spec
	switch {
	case spec.SecretName == "":
		return nil, "", errors.New("spec.secretName is needed")
	case spec.Keystores != nil:
		return nil, "", errors.New("spec.keystores is not supported: only tls.crt, tls.key and ca.crt are")
	}
	var addresses []net.IP
	for _, text := range spec.IPAddresses {
		ip := net.ParseIP(text)
		if ip == nil {
			return nil, "", fmt.Errorf("spec.ipAddresses: %q is no address", text)
		}
		addresses = append(addresses, ip)
	}
	// The chain ends with the CA.
	chain, key, err := cert.GenerateSelfSignedCertKey(cmp.Or(spec.CommonName, c.GetName()), addresses, spec.DNSNames)
	if err != nil {
		return nil, "", err
	}
	bundle = base64.StdEncoding.EncodeToString(chain)
	secret = &unstructured.Unstructured{Object: map[string]any{"type": string(corev1.SecretTypeTLS),
		"data": map[string]any{
			corev1.TLSCertKey:       bundle,
			corev1.TLSPrivateKeyKey: base64.StdEncoding.EncodeToString(key),
			"ca.crt":                bundle,
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
	return secret, bundle, nil
}
