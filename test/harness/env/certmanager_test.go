// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An operator that creates or changes its configuration while it runs gets the CA, too.
func TestCAInjector(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)
	file := filepath.Join(t.TempDir(), "install.yaml")
	g.Expect(os.WriteFile(file, []byte("{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: serving, namespace: "+ns+"}, spec: {secretName: pair}}\n---\n"+
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: "+ns+"}, spec: {template: {spec: {containers: [{name: a}]}}}}\n"),
		0o600)).To(Succeed())
	installation, err := shared.Install(ctx, InstallOptions{Manifests: file})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(installation.Stop(context.WithoutCancel(ctx))).To(Succeed()) }()
	var pair corev1.Secret
	g.Expect(shared.client.Get(ctx, types.NamespacedName{Namespace: ns, Name: "pair"}, &pair)).To(Succeed())
	key := types.NamespacedName{Namespace: ns, Name: "webhooks"}
	configurations := map[string]map[string]string{
		unique("by-certificate"): {"cert-manager.io/inject-ca-from": ns + "/serving"},
		unique("by-secret"):      {"cert-manager.io/inject-ca-from-secret": ns + "/pair"},
		unique("later"):          nil,
		unique("foreign"):        {"cert-manager.io/inject-ca-from": ns + "/another"},
	}
	for name, annotations := range configurations {
		o := refusing(t, key, name, nil)
		o.SetAnnotations(annotations)
		g.Expect(shared.client.Create(ctx, o)).To(Succeed())
		t.Cleanup(func() { _ = shared.client.Delete(context.WithoutCancel(ctx), o) })
		if annotations == nil {
			o.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": ns + "/serving"})
			g.Expect(shared.client.Update(ctx, o)).To(Succeed())
		}
	}
	for name, annotations := range configurations {
		has := func() []byte {
			var o admissionregistrationv1.ValidatingWebhookConfiguration
			g.Expect(shared.client.Get(ctx, types.NamespacedName{Name: name}, &o)).To(Succeed())
			return o.Webhooks[0].ClientConfig.CABundle
		}
		if annotations["cert-manager.io/inject-ca-from"] == ns+"/another" {
			g.Expect(has()).To(BeEmpty())
			continue
		}
		g.Eventually(has, eventually).Should(Equal(pair.Data["ca.crt"]), name)
	}
}
