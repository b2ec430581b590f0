// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
)

const (
	helmRelease = "leasehold"
	helmFlag    = "--max-concurrent-reconciles=7"
)

// helmUser has the objects of users while Helm installs, upgrades and removes the operator, one of
// each kind.
type helmUser struct {
	server *s3
	bucket *v1beta1.StorageBucket
	tenant *v1beta1.Tenant
	view   *v1beta1.MarkdownView
	before map[string]types.UID
}

func newHelmUser() *helmUser {
	u := &helmUser{server: newS3(), tenant: newTenant(unique("helm"), "a", "b"), view: newView(unique("helm-view"))}
	u.bucket = u.server.managed("e2e-helm")
	return u
}

// steps adds the steps to a feature, on a cluster without the operator.
func (u *helmUser) steps(f *features.FeatureBuilder) *features.FeatureBuilder {
	return f.
		// An API server that has once observed the fence's removal ignores the fence until it is restarted.
		// The next steps need an active fence: it would deny the writes of a reinstalled operator.
		Assess("helm installs it", step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.killAPIServer(ctx)).To(Succeed())
			u.install(ctx, g)
		})).
		Assess("refuses a second release", step(func(ctx context.Context, g *WithT) {
			_, err := shared.helm(ctx, "install", "another", helmChart, "--namespace", metav1.NamespaceDefault)
			g.Expect(err).To(MatchError(ContainSubstring("exists and cannot be imported into the current release")))
		})).
		Assess("upgrades it", step(func(ctx context.Context, g *WithT) {
			u.rolls(ctx, g, ContainElement(helmFlag), "upgrade", helmRelease, helmChart, "--reuse-values", "--set",
				"flags.max-concurrent-reconciles=7")
		})).
		Assess("rolls it back", step(func(ctx context.Context, g *WithT) {
			u.rolls(ctx, g, Not(ContainElement(helmFlag)), "rollback", helmRelease, "1")
		})).
		Assess("uninstalls it and keeps the objects of users", step(u.uninstall))
}

const helmChart = root + "/config/chart"

func (u *helmUser) install(ctx context.Context, g *WithT) {

	await(ctx, g, func() error { return shared.client.List(ctx, &appsv1.DeploymentList{}) }, Succeed(), "the API server")
	repository, tag, _ := strings.Cut(shared.settings.Image, ":")
	viewer, viewerTag, _ := strings.Cut(shared.settings.ViewerImage, ":")
	out, err := shared.helm(ctx, "install", helmRelease, helmChart, "--namespace", operatorNamespace,
		"--create-namespace", "--wait",
		"--set", "images.manager.repository="+repository, "--set", "images.manager.tag="+tag,
		"--set", "images.viewer.repository="+viewer, "--set", "images.viewer.tag="+viewerTag)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(ContainSubstring("pod-security.kubernetes.io/enforce=restricted"))
	g.Expect(shared.awaitOperator(ctx)).To(Succeed())

	u.server.start(ctx, g)
	strictNamespace(ctx, g, u.view.Namespace)
	for _, o := range []client.Object{u.tenant, u.bucket, u.view} {
		g.Expect(shared.client.Create(ctx, o)).To(Succeed())
	}
	u.ready(ctx, g)
	u.before, err = u.uids(ctx)
	g.Expect(err).NotTo(HaveOccurred())
}

// rolls runs helm, and expects new Pods with other arguments and no other change.
func (u *helmUser) rolls(ctx context.Context, g *WithT, arguments OmegaMatcher, argv ...string) {
	before, err := shared.pods(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = shared.helm(ctx, append(argv, "--namespace", operatorNamespace, "--wait")...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(shared.awaitOperator(ctx)).To(Succeed())
	after, err := shared.pods(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after).To(HaveLen(2))
	for i := range after {
		g.Expect(after[i].Spec.Containers[0].Args).To(arguments)
		for j := range before {
			g.Expect(after[i].UID).NotTo(Equal(before[j].UID))
		}
	}
	u.ready(ctx, g)
	g.Expect(u.uids(ctx)).To(Equal(u.before))
	later := newTenant(unique("helm-later"), "a")
	g.Expect(shared.client.Create(ctx, later)).To(Succeed())
	await(ctx, g, tenantReady(later), Succeed())
	remove(ctx, g, later)
}

func (u *helmUser) uninstall(ctx context.Context, g *WithT) {
	out, err := shared.helm(ctx, "uninstall", helmRelease, "--namespace", operatorNamespace, "--wait")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(out, "[CustomResourceDefinition] ")).To(Equal(3), out)
	g.Eventually(shared.left).WithContext(ctx).WithTimeout(readyTimeout).Should(ConsistOf(
		HavePrefix("CustomResourceDefinition "), HavePrefix("CustomResourceDefinition "),
		HavePrefix("CustomResourceDefinition "),
		"Namespace /"+operatorNamespace, "ConfigMap "+operatorNamespace+"/kube-root-ca.crt",
		"ServiceAccount "+operatorNamespace+"/default"))
	g.Expect(u.uids(ctx)).To(Equal(u.before))
	g.Expect(u.server.owners(ctx)).To(Equal(map[string]string{u.bucket.Spec.BucketName: string(u.bucket.UID)}))
}

// remains expects a reinstalled operator to continue with the existing objects.
func (u *helmUser) remains(ctx context.Context, g *WithT) {
	u.ready(ctx, g)
	g.Expect(u.uids(ctx)).To(Equal(u.before))
}

func (u *helmUser) ready(ctx context.Context, g *WithT) {
	await(ctx, g, tenantReady(u.tenant), Succeed())
	await(ctx, g, viewReady(u.view), Succeed())
	ready(ctx, g, u.bucket, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded)
}

// uids returns the UIDs of the definitions, of all objects of users, and of those that the operator
// made for them.
func (u *helmUser) uids(ctx context.Context) (map[string]types.UID, error) {
	viewer := metav1.ObjectMeta{Namespace: u.view.Namespace, Name: "viewer-" + u.view.Name}
	objects := []client.Object{u.tenant, u.bucket, u.view,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: u.view.Namespace, Name: "markdowns-" + u.view.Name}},
		&appsv1.Deployment{ObjectMeta: viewer}, &corev1.Service{ObjectMeta: viewer}}
	for _, suffix := range u.tenant.Spec.Namespaces {
		objects = append(objects, namespaceOf(u.tenant.Name+"-"+string(suffix)))
	}
	for _, kind := range []string{"tenants", "storagebuckets", "markdownviews"} {
		objects = append(objects, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: kind + "." + v1beta1.GroupVersion.Group},
		})
	}
	uids := map[string]types.UID{}
	for _, o := range objects {
		if err := shared.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return nil, err
		}
		if o.GetDeletionTimestamp() != nil {
			return nil, fmt.Errorf("%T %s is being deleted", o, o.GetName())
		}
		uids[fmt.Sprintf("%T %s", o, o.GetName())] = o.GetUID()
	}
	return uids, nil
}

// clear removes the users' objects while the operator runs.
func (u *helmUser) clear(ctx context.Context, g *WithT) {
	remove(ctx, g, u.tenant)
	u.server.remove(ctx, g)
	discard(ctx, g, namespaceOf(u.view.Namespace))
}

// helm runs helm as the administrator and logs its duration.
func (s *suite) helm(ctx context.Context, argv ...string) (string, error) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, s.settings.Helm, argv...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig())
	out, err := cmd.CombinedOutput()
	s.logf("helm %s: %.1f s", argv[0], time.Since(began).Seconds())
	if err != nil {
		return "", fmt.Errorf("running helm %s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return string(out), nil
}
