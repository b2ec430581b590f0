// SPDX-License-Identifier: Apache-2.0

package certmanager_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
)

const (
	root   = "../../.."
	config = root + "/config"
)

// certManager is cert-manager itself: its controllers and its CA injector, in the program of hack/certmanager.
type certManager struct{}

// manifests returns the overlay with the definitions of cert-manager, which tell the harness to issue nothing.
func (certManager) manifests(ctx context.Context) string {
	GinkgoHelper()
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f={{.Dir}}", "github.com/cert-manager/cert-manager")
	list.Dir = filepath.Join(root, "hack", "certmanager")
	list.Env = append(os.Environ(), "GOWORK=off") // a module that go.work does not have
	module, err := list.Output()
	Expect(err).NotTo(HaveOccurred())
	crds, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "deploy", "crds", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(crds).NotTo(BeEmpty())
	folder := filepath.Join(GinkgoT().TempDir(), "config")
	Expect(os.CopyFS(folder, os.DirFS(config))).To(Succeed())
	overlay := filepath.Join(folder, "overlay")
	Expect(os.Mkdir(overlay, 0o700)).To(Succeed())
	text := "resources:\n- ../certmanager\n"
	for _, path := range crds {
		crd, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(overlay, filepath.Base(path)), crd, 0o600)).To(Succeed())
		text += "- " + filepath.Base(path) + "\n"
	}
	Expect(os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600)).To(Succeed())
	return overlay
}

// start starts the program, which ends with its standard input, at the latest with this process.
func (certManager) start(ctx context.Context, plane *env.ControlPlane) {
	GinkgoHelper()
	program, err := filepath.Abs(filepath.Join(root, "bin", "certmanager", "certmanager"))
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, program, "--kubeconfig="+plane.Kubeconfig())
	input, err := command.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred(), "`make bin/certmanager/certmanager` builds it")
	DeferCleanup(func(ctx SpecContext) {
		Expect(input.Close()).To(Succeed())
		Eventually(session).WithContext(ctx).WithTimeout(expect.Medium).Should(gexec.Exit(0))
	})
}

// renew requests a renewal as cert-manager's own command does: by a condition.
func (certManager) renew(ctx context.Context, c client.Client) {
	GinkgoHelper()
	certificate := &unstructured.Unstructured{}
	certificate.SetAPIVersion("cert-manager.io/v1")
	certificate.SetKind("Certificate")
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx, serving, certificate)).To(Succeed())
		conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
		g.Expect(errors.Join(err, unstructured.SetNestedSlice(certificate.Object, append(conditions, map[string]any{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "a test"}),
			"status", "conditions"))).To(Succeed())
		g.Expect(c.Status().Update(ctx, certificate)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
}

// standIn is the harness, which issues when it renders the manifests. It has no renewal, so the spec
// changes what cert-manager changes for a self-signed issuer.
type standIn struct{}

func (standIn) manifests(context.Context) string         { return filepath.Join(config, "certmanager") }
func (standIn) start(context.Context, *env.ControlPlane) {}

func (standIn) renew(ctx context.Context, c client.Client) {
	GinkgoHelper()
	var secret corev1.Secret
	Expect(c.Get(ctx, serving, &secret)).To(Succeed())
	var err error
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], err =
		cert.GenerateSelfSignedCertKey(webhookHost, nil, []string{webhookHost + ".cluster.local"})
	Expect(err).NotTo(HaveOccurred())
	_, secret.Data["ca.crt"] = splitChain(secret.Data[corev1.TLSCertKey])
	Expect(c.Update(ctx, &secret)).To(Succeed())
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(c.Get(ctx, types.NamespacedName{Name: "leasehold-mutating-webhook-configuration"}, mutating)).To(Succeed())
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.CABundle = secret.Data["ca.crt"]
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(c.Get(ctx, types.NamespacedName{Name: "leasehold-validating-webhook-configuration"}, validating)).To(Succeed())
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle = secret.Data["ca.crt"]
	}
	for _, o := range []client.Object{mutating, validating} {
		o.SetAnnotations(nil) // for which the harness would inject the CA that it issued
		Expect(c.Update(ctx, o)).To(Succeed())
	}
}
