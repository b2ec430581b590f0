// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// With cert-manager the manager reads its certificate from files and has no permission to issue one.
func TestCertManagerOverlay(t *testing.T) {
	objects := render(t, "certmanager")
	d := one[*appsv1.Deployment](t, objects, deploymentName)
	container := manager(t, d)
	mounts := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounts[m.MountPath] = m.Name
	}
	var path string
	for _, arg := range container.Args {
		if value, ok := strings.CutPrefix(arg, "--webhook-cert-path="); ok {
			path = value
		}
	}
	certificate := foreign(t, objects, "Certificate")
	secret := into[string](t, certificate, "spec", "secretName")
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == mounts[path] && (v.Secret == nil || v.Secret.SecretName != secret) {
			t.Errorf("volume %s at %s is not the Secret %s that the Certificate fills", v.Name, path, secret)
		}
		// The files belong to root, and the manager runs as another user.
		if v.Secret != nil && v.Secret.DefaultMode != nil && *v.Secret.DefaultMode&0o004 == 0 {
			t.Errorf("the manager cannot read the files of volume %s, whose mode is %o", v.Name, *v.Secret.DefaultMode)
		}
	}
	// The type and the writer of this Secret differ, so a change of the issuer would fail or leave
	// two writers.
	for _, own := range all[*corev1.Secret](render(t, "default")) {
		if own.Name == secret {
			t.Errorf("cert-manager and the manager write the same Secret %s", secret)
		}
	}
	if path == "" || mounts[path] == "" {
		t.Errorf("--webhook-cert-path is %q, and mounted are %v", path, mounts)
	}
	if found := all[*corev1.Secret](objects); len(found) != 0 {
		t.Errorf("the Secret is shipped although cert-manager makes it: %v", found[0].Name)
	}
	for _, g := range grants(t, objects) {
		for _, rule := range g.Rules {
			// Buckets' Secrets are read one at a time in both overlays.
			reads := slices.Equal(rule.Verbs, []string{"get"}) && len(rule.ResourceNames) == 0
			if !reads && intersects(rule.Resources, "secrets", "mutatingwebhookconfigurations",
				"validatingwebhookconfigurations") {
				t.Errorf("%s in %q still grants %v", g.Role, g.Namespace, rule)
			}
		}
	}
	dns := into[[]string](t, certificate, "spec", "dnsNames")
	if want := "leasehold-webhook-service." + operatorNamespace + ".svc"; !slices.Contains(dns, want) {
		t.Errorf("the certificate is for %v, want %s among them", dns, want)
	}
	injectFrom(t, objects, certificate)
}

// injectFrom checks the annotations with which cert-manager injects this certificate's CA into both
// webhook configurations.
func injectFrom(t *testing.T, objects []object, certificate *unstructured.Unstructured) {
	t.Helper()
	want := certificate.GetNamespace() + "/" + certificate.GetName()
	for _, configuration := range webhookConfigurations(objects) {
		if got := configuration.GetAnnotations()["cert-manager.io/inject-ca-from"]; got != want {
			t.Errorf("%s takes its CA from %q, want %q", configuration.GetName(), got, want)
		}
	}
}
