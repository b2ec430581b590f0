// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nonRoot is the user ID of the Pods of these tests.
const nonRoot = 65532

// unique returns a new name, so a feature can run again on a cluster that is kept.
func unique(base string) string { return "e2e-" + base + "-" + utilrand.String(5) }

// afterwards cleans up at the end of a feature, also after a failure, when its traces have been collected.
func afterwards(t *testing.T, f func(ctx context.Context, g *WithT)) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), readyTimeout)
		defer cancel()
		f(ctx, NewWithT(t))
	})
}

// await is Eventually with the times of a real cluster.
func await(ctx context.Context, g *WithT, actual any, matcher OmegaMatcher, description ...any) {
	g.Eventually(actual).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(matcher, description...)
}

// change changes an object, and retries after a conflict.
func change[T client.Object](ctx context.Context, g *WithT, o T, f func(T)) {
	await(ctx, g, func(g Gomega) {
		g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		f(o)
		g.Expect(shared.client.Update(ctx, o)).To(Succeed())
	}, Succeed())
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// strictNamespace creates a namespace that enforces `restricted`.
func strictNamespace(ctx context.Context, g *WithT, name string) {
	ns := namespaceOf(name)
	ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	g.Expect(shared.client.Create(ctx, ns)).To(Succeed())
}

// discard deletes objects without waiting: no other feature uses their names.
func discard(ctx context.Context, g *WithT, objects ...client.Object) {
	for _, o := range objects {
		g.Expect(client.IgnoreNotFound(shared.client.Delete(ctx, o))).To(Succeed())
	}
}

// newPod returns a Pod for any node that runs until it is deleted. It uses the page server's image,
// because that is loaded.
func newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)),
			SecurityContext: restrictedPod(),
			Volumes: []corev1.Volume{{Name: "empty",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "main", Image: shared.settings.ViewerImage, ImagePullPolicy: corev1.PullIfNotPresent,
				SecurityContext: restrictedContainer(),
				VolumeMounts:    []corev1.VolumeMount{{Name: "empty", MountPath: "/book/src"}},
			}},
		},
	}
}

func restrictedPod() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(nonRoot)), RunAsGroup: new(int64(nonRoot)),
		FSGroup:        new(int64(nonRoot)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func restrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// as returns a client of another user, with these groups and system:authenticated.
func as(g *WithT, user string, groups ...string) client.Client {
	config := shared.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: shared.client.Scheme(), Mapper: shared.client.RESTMapper()})
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

// kubectl runs kubectl as the administrator, and returns its output.
func (s *suite) kubectl(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.settings.Kubectl, argv...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("running kubectl %s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return string(out), nil
}
