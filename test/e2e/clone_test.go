// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clone is a Pod beside the operator's own: the Deployment's template with one change, under
// another ServiceAccount and with its own Lease, so tests can bring it into states that the
// operator should never have. The webhook Service selects it like the others.
type clone struct {
	pod     *corev1.Pod
	lease   string
	objects []client.Object // its prerequisites in the order of creation
}

// cloneOptions are the differences from the Deployment's Pod.
type cloneOptions struct {
	name string
	// mayWatch grants the operator's rights. Without them the caches never sync.
	mayWatch bool
	// heldByOther makes it a standby: a holder that does not exist has its Lease.
	heldByOther bool
	// once disables restarts of its container.
	once bool
	// lingers is the delay of its shutdown in seconds; 0 is the Deployment's.
	lingers int64
	args    []string
	env     []corev1.EnvVar
}

// startClones creates clones and their prerequisites, and waits until their processes have started.
// It adds each to clones before it creates anything of it.
func startClones(ctx context.Context, g *WithT, clones map[string]*clone, options ...cloneOptions) {
	var d appsv1.Deployment
	g.Expect(shared.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: operatorName}, &d)).To(Succeed())
	for _, o := range options {
		c := newClone(&d, o)
		clones[o.name] = c
		for _, object := range c.objects {
			g.Expect(shared.client.Create(ctx, object)).To(Succeed())
		}
	}
	for _, c := range clones {
		g.Eventually(func(g Gomega) {
			g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(c.pod), c.pod)).To(Succeed())
			g.Expect(c.pod.Status.PodIP).NotTo(BeEmpty())
			g.Expect(c.pod.Status.ContainerStatuses).To(HaveLen(1))
			g.Expect(c.pod.Status.ContainerStatuses[0].ContainerID).NotTo(BeEmpty())
		}).WithContext(ctx).WithTimeout(readyTimeout).WithPolling(poll).Should(Succeed())
	}
}

func newClone(d *appsv1.Deployment, o cloneOptions) *clone {
	name := "e2e-clone-" + o.name
	c := &clone{lease: name, pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: operatorNamespace, Labels: maps.Clone(d.Spec.Template.Labels)},
		Spec:       *d.Spec.Template.Spec.DeepCopy(),
	}}
	c.pod.Spec.ServiceAccountName = name
	container := &c.pod.Spec.Containers[0]
	container.Args = append(append(container.Args, "--leader-election-id="+name), o.args...)
	container.Env = append(container.Env, o.env...)
	if o.lingers > 0 {
		container.Lifecycle.PreStop.Sleep.Seconds = o.lingers
	}
	if o.once {
		c.pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	c.objects = append(cloneRights(name, o.mayWatch), c.pod)
	if o.heldByOther {
		c.objects = append([]client.Object{heldLease(name)}, c.objects...)
	}
	return c
}

// heldLease returns a Lease that a nonexistent holder has for an hour.
func heldLease(name string) *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: operatorNamespace},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("nobody_0"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now,
		},
	}
}

// cloneRights are the ServiceAccount and its permissions: to take its Lease, and to read the
// certificate but not change it.
func cloneRights(name string, mayWatch bool) []client.Object {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: operatorNamespace}}
	role := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: operatorNamespace}
	everywhere := metav1.ObjectMeta{Name: name}
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
				Verbs: []string{"get", "list", "watch", "create", "update"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role("Role", name), Subjects: subjects},
		&rbacv1.ClusterRole{ObjectMeta: everywhere, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"admissionregistration.k8s.io"}, Verbs: []string{"get", "list", "watch"},
			Resources: []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"},
		}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: everywhere, RoleRef: role("ClusterRole", name), Subjects: subjects},
	}
	if mayWatch {
		objects = append(objects, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-manager"}, RoleRef: role("ClusterRole", "leasehold-manager-role"),
			Subjects: subjects,
		})
	}
	return objects
}

// removeClones deletes clones and waits until nothing of them is left. It kills the Pods first: one
// without permissions is slow to end.
func removeClones(ctx context.Context, g *WithT, clones map[string]*clone) {
	var pods, others []client.Object
	for _, c := range clones {
		pods = append(pods, c.pod)
		// Leaders created their Lease themselves.
		others = append(others, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: c.lease,
			Namespace: operatorNamespace}})
		others = append(others, c.objects...)
		g.Expect(client.IgnoreNotFound(shared.client.Delete(ctx, c.pod, client.GracePeriodSeconds(0)))).To(Succeed())
	}
	remove(ctx, g, pods...)
	remove(ctx, g, others...)
}

// leads returns an error unless the clone holds its Lease.
func (c *clone) leads(ctx context.Context) error {
	var lease coordinationv1.Lease
	if err := shared.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: c.lease}, &lease); err != nil {
		return err
	}
	if holderOf(&lease) != c.pod.Name {
		return fmt.Errorf("the Lease is held by %q", holderOf(&lease))
	}
	return nil
}
