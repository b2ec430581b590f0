// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/test/harness/expect"
)

// answers are the HTTP statuses of the endpoints, by path; 0 is no answer.
type answers map[string]int

// endpoints returns all paths of a replica's probe port.
func endpoints() []string {
	return []string{"/healthz", "/healthz/ping", "/readyz", "/readyz/caches", "/readyz/webhook"}
}

func allAnswer(status int) answers {
	a := answers{}
	for _, path := range endpoints() {
		a[path] = status
	}
	return a
}

// but returns a with other statuses for some paths.
func (a answers) but(status int, paths ...string) answers {
	for _, path := range paths {
		a[path] = status
	}
	return a
}

// probe probes a Pod and returns its answers.
func probe(ctx context.Context, pod *corev1.Pod) (answers, error) {
	statuses, err := shared.cluster.Statuses(ctx, pod, probePort, endpoints()...)
	return answers(statuses), err
}

// finding is the expected state of a replica: the statuses of its endpoints, its condition Ready,
// and whether the webhooks' Service selects it.
type finding struct {
	state, replica string
	want           answers
	leaving        bool // draining, so it gets no new connections, Ready or not
}

// assess waits for the statuses, and for the condition and the Service to agree with /readyz.
func (f finding) assess(ctx context.Context, g *WithT, pod *corev1.Pod) {
	g.Eventually(func(g Gomega) {
		g.Expect(probe(ctx, pod)).To(Equal(f.want), f.state+", "+f.replica)
		g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		ready := f.want["/readyz"] == http.StatusOK
		g.Expect(podReady(pod)).To(Equal(ready), "the condition Ready, "+f.state+", "+f.replica)
		g.Expect(served(ctx, pod)).To(Equal(ready && !f.leaving), "the webhooks' Service, "+f.state+", "+f.replica)
	}).WithContext(ctx).WithTimeout(expect.Medium).WithPolling(poll).Should(Succeed())
}

// served reports whether the webhooks' Service sends new connections to the Pod.
func served(ctx context.Context, pod *corev1.Pod) (bool, error) {
	var slices discoveryv1.EndpointSliceList
	if err := shared.client.List(ctx, &slices, client.InNamespace(operatorNamespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: "leasehold-webhook-service"}); err != nil {
		return false, fmt.Errorf("listing the webhooks' endpoints: %w", err)
	}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef != nil && endpoint.TargetRef.UID == pod.UID {
				return endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready, nil
			}
		}
	}
	return false, nil
}

func TestProbeEndpoints(t *testing.T) {
	empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "e2e-none-webhook-server-cert",
		Namespace: operatorNamespace}}
	withoutCertificate := []string{"--webhook-name-prefix=e2e-none-"}
	clones := map[string]*clone{}
	afterwards(t, func(ctx context.Context, g *WithT) {
		removeClones(ctx, g, clones)
		remove(ctx, g, empty)
	})
	f := features.New("/healthz and /readyz, of leader and standby").
		Setup(step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.client.Create(ctx, empty)).To(Succeed())
			startClones(ctx, g, clones,
				// No host has this address.
				cloneOptions{name: "starting", mayWatch: true,
					env: []corev1.EnvVar{{Name: "KUBERNETES_SERVICE_HOST", Value: "192.0.2.1"}}},
				cloneOptions{name: "caches"},
				cloneOptions{name: "lost-leader", mayWatch: true, once: true},
				cloneOptions{name: "lost-standby", mayWatch: true, heldByOther: true},
				cloneOptions{name: "draining-leader", mayWatch: true, lingers: 20},
				cloneOptions{name: "draining-standby", mayWatch: true, heldByOther: true, lingers: 20},
				cloneOptions{name: "certificate-standby", mayWatch: true, heldByOther: true, args: withoutCertificate},
				cloneOptions{name: "certificate-leader", mayWatch: true, args: withoutCertificate},
			)
		}))
	by := func(name string) *clone { return clones[name] }
	f = notYetReady(f, by)
	f = steadyReplicas(f)
	f = leaseLost(f, by)
	f = draining(f, by)
	testenv.Test(t, f.Feature())
}

func steadyReplicas(f *features.FeatureBuilder) *features.FeatureBuilder {
	return f.
		Assess("all pass on a leader at work", step(func(ctx context.Context, g *WithT) {
			pod, err := shared.leader(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			finding{"steady", "leader", allAnswer(http.StatusOK), false}.assess(ctx, g, pod)
		})).
		Assess("all pass on a standby", step(func(ctx context.Context, g *WithT) {
			pod, err := shared.standby(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			finding{"steady", "standby", allAnswer(http.StatusOK), false}.assess(ctx, g, pod)
		}))
}

// notYetReady tests the states of a starting replica. The election begins when the caches have
// synced, so until then there is neither leader nor standby.
func notYetReady(f *features.FeatureBuilder, by func(name string) *clone) *features.FeatureBuilder {
	const neither = "either, before the election"
	return f.
		// The replica cannot issue one, exits after some seconds and is restarted.
		Assess("a leader without a certificate is alive and not ready", step(func(ctx context.Context, g *WithT) {
			c := by("certificate-leader")
			finding{"webhook certificate missing", "leader", allAnswer(http.StatusOK).but(http.StatusInternalServerError,
				"/readyz", "/readyz/webhook"), false}.assess(ctx, g, c.pod)
			g.Eventually(c.leads).WithContext(ctx).WithTimeout(expect.Short).WithPolling(poll).Should(Succeed())
		})).
		Assess("a standby without a certificate is alive and not ready", step(func(ctx context.Context, g *WithT) {
			c := by("certificate-standby")
			finding{"webhook certificate missing", "standby", allAnswer(http.StatusOK).but(http.StatusInternalServerError,
				"/readyz", "/readyz/webhook"), false}.assess(ctx, g, c.pod)
			g.Expect(c.leads(ctx)).NotTo(Succeed())
		})).
		Assess("a replica that cannot reach the API server exits and does not answer",
			step(func(ctx context.Context, g *WithT) {
				c := by("starting")
				finding{"starting without an API server", neither, allAnswer(0), false}.assess(ctx, g, c.pod)
				g.Expect(c.leads(ctx)).NotTo(Succeed())
			})).
		// The certificate is read through the cache too.
		Assess("a replica whose caches are not filled is alive and not ready, and does not lead",
			step(func(ctx context.Context, g *WithT) {
				c := by("caches")
				finding{"caches not synced", neither, allAnswer(http.StatusOK).but(http.StatusInternalServerError, "/readyz",
					"/readyz/caches", "/readyz/webhook"), false}.assess(ctx, g, c.pod)
				g.Expect(c.leads(ctx)).NotTo(Succeed())
			}))
}

// leaseLost gives the Lease to another holder, which only a leader reacts to.
func leaseLost(f *features.FeatureBuilder, by func(name string) *clone) *features.FeatureBuilder {
	giveAway := func(ctx context.Context, g *WithT, c *clone) {
		g.Eventually(func(g Gomega) {
			var lease coordinationv1.Lease
			g.Expect(shared.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: c.lease}, &lease)).To(Succeed())
			version := lease.ResourceVersion
			lease.Spec = heldLease(c.lease).Spec
			lease.Spec.HolderIdentity, lease.ResourceVersion = new("somebody_1"), version
			g.Expect(shared.client.Update(ctx, &lease)).To(Succeed())
		}).WithContext(ctx).WithTimeout(expect.Short).WithPolling(poll).Should(Succeed())
	}
	return f.
		Assess("a leader that has lost its Lease exits and does not answer", step(func(ctx context.Context, g *WithT) {
			c := by("lost-leader")
			g.Eventually(c.leads).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
			giveAway(ctx, g, c)
			finding{"lease lost", "leader", allAnswer(0), false}.assess(ctx, g, c.pod)
			g.Expect(c.pod.Status.ContainerStatuses[0].State.Terminated).To(HaveField("ExitCode", BeEquivalentTo(1)))
		})).
		Assess("a standby continues while another client holds the Lease", step(func(ctx context.Context, g *WithT) {
			c := by("lost-standby")
			giveAway(ctx, g, c)
			finding{"lease lost", "standby", allAnswer(http.StatusOK), false}.assess(ctx, g, c.pod)
			g.Expect(c.pod.Status.ContainerStatuses[0].RestartCount).To(BeZero())
		}))
}

// draining deletes Pods. Their preStop hook keeps them answering until no node sends new
// connections to them. Its delay here is long enough to observe that on a slow machine.
func draining(f *features.FeatureBuilder, by func(name string) *clone) *features.FeatureBuilder {
	for _, replica := range []string{"leader", "standby"} {
		f = f.Assess(fmt.Sprintf("a %s that drains answers, and gets no new admission requests", replica),
			step(func(ctx context.Context, g *WithT) {
				c := by("draining-" + replica)
				g.Eventually(served).WithContext(ctx).WithArguments(c.pod).WithTimeout(expect.Medium).WithPolling(poll).
					Should(BeTrue())
				g.Expect(shared.client.Delete(ctx, c.pod)).To(Succeed())
				finding{"draining", replica, allAnswer(http.StatusOK), true}.assess(ctx, g, c.pod)
				g.Expect(c.pod.DeletionTimestamp).NotTo(BeNil())
			}))
	}
	return f
}
