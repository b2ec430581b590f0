// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/integration/internal/operator"
	"leasehold.dev/test/leasehold"
)

// fenced is the shipped operator behind a proxy, on its own control plane.
type fenced struct {
	plane        *env.ControlPlane
	client       client.Client // of an administrator
	scheme       *runtime.Scheme
	proxy        *fault.Proxy
	installation *env.Installation
}

// newFenced starts two replicas, and creates a Tenant and a namespace for writes.
func newFenced(ctx context.Context) *fenced {
	GinkgoHelper()
	f := &fenced{scheme: leasehold.Scheme()}
	lasting := context.WithoutCancel(ctx)
	var err error
	f.plane, err = leasehold.StartControlPlane(lasting, "../../../config", env.Options{
		Controllers: append(slices.Clone(env.DefaultControllers), "validatingadmissionpolicy-status-controller"),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(f.plane.Stop()).To(Succeed()) })
	f.client = f.clientOf(f.plane.Config())

	upstream, err := rest.TLSConfigFor(rest.AnonymousClientConfig(f.plane.Config()))
	Expect(err).NotTo(HaveOccurred())
	// TLS, because clients send credentials of a kubeconfig only over TLS.
	f.proxy, err = fault.NewProxy(fault.Options{Upstream: f.plane.Config().Host, UpstreamTLS: upstream, TLS: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(f.proxy.Close()).To(Succeed()) })
	// Longer, because a leader that loses the Lease on a busy machine is not restarted here.
	subject := leasehold.Subject("../../../config", operator.Manager(),
		"--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=250ms")
	subject.Connect = func(c *rest.Config) {
		c.Host, c.TLSClientConfig = f.proxy.URL(), rest.TLSClientConfig{CAData: f.proxy.CA()}
	}
	f.installation, err = f.plane.Install(lasting, subject)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(f.installation.Stop(ctx)).To(Succeed()) })
	for range 2 {
		r, err := f.installation.Start(lasting)
		Expect(err).NotTo(HaveOccurred())
		Eventually(r.Ready).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed(),
			func() string { return r.LogTail(20) })
	}
	Expect(f.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "target"}})).To(Succeed())
	f.ready(ctx, f.tenant(ctx, "target", "dev"))
	// An API server that has not received the Lease yet lets every replica write.
	_, standby := f.roles(ctx)
	Eventually(f.tries(standby)).WithContext(ctx).ShouldNot(Succeed())
	return f
}

func (f *fenced) clientOf(c *rest.Config) client.Client {
	GinkgoHelper()
	c.QPS = -1
	made, err := client.New(c, client.Options{Scheme: f.scheme})
	Expect(err).NotTo(HaveOccurred())
	return made
}

// as returns a client with the replica's identity.
func (f *fenced) as(r *env.Replica) client.Client { return f.clientOf(r.Config()) }

// unbound returns a client of a ServiceAccount whose token names no Pod.
func (f *fenced) unbound(ctx context.Context, namespace, name string) client.Client {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{}
	Expect(f.client.SubResource("token").Create(ctx, account, request)).To(Succeed())
	c := rest.AnonymousClientConfig(f.plane.Config())
	c.BearerToken = request.Status.Token
	return f.clientOf(c)
}

// stranger returns a client of another ServiceAccount with all permissions.
func (f *fenced) stranger(ctx context.Context) client.Client {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
		Name: "leasehold-controller-manager"}}
	Expect(f.client.Create(ctx, account)).To(Succeed())
	Expect(f.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	})).To(Succeed())
	c := f.unbound(ctx, account.Namespace, account.Name)
	Eventually(func() error { return c.List(ctx, &corev1.NamespaceList{}) }).WithContext(ctx).Should(Succeed())
	return c
}

// writes returns dry runs of the operator's writes, one for each kind of request.
func (f *fenced) writes(ctx context.Context) map[string]func(client.Client) error {
	meta := metav1.ObjectMeta{Namespace: "target", Name: "tried"}
	labels := map[string]string{"app": "tried"}
	create := func(o client.Object) func(client.Client) error {
		return func(c client.Client) error {
			return c.Create(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll)
		}
	}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tried":"yes"}}}`))
	ready := client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":7}}`))
	tenant := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "target"}}
	return map[string]func(client.Client) error{
		"create a ConfigMap": create(&corev1.ConfigMap{ObjectMeta: meta}),
		"create a namespace": create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tried"}}),
		"create a Service": create(&corev1.Service{ObjectMeta: meta,
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}),
		"create a ClusterRole": create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tried"}}),
		"create a RoleBinding": create(&rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}}),
		"create a Deployment": create(&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "pause", Image: "pause"}},
			}},
		}}),
		"patch a Tenant": func(c client.Client) error {
			return c.Patch(ctx, tenant.DeepCopy(), label, client.DryRunAll)
		},
		"patch a Tenant's status": func(c client.Client) error {
			return c.Status().Patch(ctx, tenant.DeepCopy(), ready, client.DryRunAll)
		},
		"delete a namespace": func(c client.Client) error {
			return c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "target"}}, client.DryRunAll)
		},
		"update the Secret": func(c client.Client) error {
			secret := &corev1.Secret{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: "leasehold-webhook-server-cert"},
				secret); err != nil {
				return err
			}
			return c.Update(ctx, secret, client.DryRunAll)
		},
	}
}

// tries returns a function that sends one write of the replica without effect.
func (f *fenced) tries(r *env.Replica) func(context.Context) error {
	c := f.as(r)
	return func(ctx context.Context) error {
		return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "tried"}},
			client.DryRunAll)
	}
}

// lease returns the Lease of the election.
func (f *fenced) lease(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	lease, err := leasehold.ElectionLease(ctx, f.client)
	Expect(err).NotTo(HaveOccurred())
	return lease
}

func (f *fenced) holder(ctx context.Context) string {
	GinkgoHelper()
	return ptr.Deref(f.lease(ctx).Spec.HolderIdentity, "")
}

// roles waits until both replicas are ready, and returns the leader and the standby.
func (f *fenced) roles(ctx context.Context) (leader, standby *env.Replica) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		replicas := f.installation.Replicas()
		for _, r := range replicas {
			g.Expect(r.Ready(ctx)).To(Succeed())
		}
		leader = leasehold.Holder(f.lease(ctx), replicas)
		g.Expect(leader).NotTo(BeNil())
		standby = replicas[0]
		if standby == leader {
			standby = replicas[1]
		}
		g.Expect(f.tries(leader)(ctx)).To(Succeed(), "the fence reads the same Lease")
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	return leader, standby
}

// aim points the fence to another Lease.
func (f *fenced) aim(ctx context.Context, lease string) {
	GinkgoHelper()
	b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	b.Name = "leasehold-fence.leasehold.dev"
	operator.Change(ctx, f.client, b, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
		b.Spec.ParamRef.Name = lease
	})
}

// tenant creates a Tenant; each name is used once.
func (f *fenced) tenant(ctx context.Context, name string, suffixes ...v1beta1.NamespaceSuffix) *v1beta1.Tenant {
	GinkgoHelper()
	t := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.TenantSpec{
		Namespaces: suffixes, Admins: []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "ann"}},
	}}
	// The webhooks answer shortly after the replicas are ready.
	Eventually(func() error { return f.client.Create(ctx, t) }).WithContext(ctx).Should(Succeed())
	return t
}

// setNamespaces changes the namespaces in the spec of a Tenant.
func (f *fenced) setNamespaces(ctx context.Context, t *v1beta1.Tenant, suffixes ...v1beta1.NamespaceSuffix) {
	GinkgoHelper()
	operator.Change(ctx, f.client, t, func(t *v1beta1.Tenant) { t.Spec.Namespaces = suffixes })
}

func (f *fenced) ready(ctx context.Context, t *v1beta1.Tenant) {
	GinkgoHelper()
	Eventually(ctx, expect.Fetched(f.client, t)).WithTimeout(expect.Medium).Should(And(
		expect.HaveObservedGeneration(), expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue)))
}

func (f *fenced) position() record.Bookmark {
	GinkgoHelper()
	end, err := record.End(f.plane.AuditLog())
	Expect(err).NotTo(HaveOccurred())
	return end
}

func byPod(r *env.Replica) record.Filter {
	return func(e auditv1.Event) bool {
		pod := e.User.Extra["authentication.kubernetes.io/pod-name"]
		return len(pod) == 1 && pod[0] == r.Name()
	}
}

// writesOf returns the replica's write requests, except for Leases and events.
func (f *fenced) writesOf(r *env.Replica, since record.Bookmark, matches ...record.Filter) []auditv1.Event {
	GinkgoHelper()
	return f.allWritesOf(r, since, append(matches,
		record.Not(record.Resource("coordination.k8s.io", "leases")),
		record.Not(record.Resource("events.k8s.io", "events")))...)
}

// eventsOf returns the events that a replica has recorded.
func (f *fenced) eventsOf(r *env.Replica, since record.Bookmark) []auditv1.Event {
	GinkgoHelper()
	return f.allWritesOf(r, since, record.Resource("events.k8s.io", "events"))
}

func (f *fenced) allWritesOf(r *env.Replica, since record.Bookmark, matches ...record.Filter) []auditv1.Event {
	GinkgoHelper()
	events, _, err := record.ReadAuditLogFrom(f.plane.AuditLog(), since)
	Expect(err).NotTo(HaveOccurred())
	return record.Writes(events, r.Identity().Username, append(matches, byPod(r))...)
}

func logOf(r *env.Replica) string {
	GinkgoHelper()
	text, err := os.ReadFile(r.LogPath())
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// expectReason waits until the replica leads, and expects the log and an event to give its last
// takeover a reason that matches.
func (f *fenced) expectReason(ctx context.Context, r *env.Replica, reason string) {
	GinkgoHelper()
	var identity string
	Eventually(func() string {
		identity = f.holder(ctx)
		return identity
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(HavePrefix(r.Name() + "_"))
	Eventually(func(g Gomega) {
		g.Expect(takeoversIn(logOf(r))).To(ContainElement(And(
			HaveField("Replica", identity), HaveField("Reason", MatchRegexp(reason)),
			HaveField("Lock", "leasehold-system/manager.leasehold.dev"))))
		var events eventsv1.EventList
		g.Expect(f.client.List(ctx, &events, client.InNamespace(operatorNamespace))).To(Succeed())
		g.Expect(events.Items).To(expect.ContainEvent(expect.Event{
			Type: corev1.EventTypeNormal, Reason: "LeaderElection",
			Note: "^" + identity + " became leader: " + strings.TrimPrefix(reason, "^"),
		}))
	}).WithContext(ctx).Should(Succeed())
}

// takeoverLine is a replica's log line for an acquired Lease.
type takeoverLine struct{ Msg, Replica, Lock, Reason string }

func takeoversIn(log string) []takeoverLine {
	var found []takeoverLine
	for text := range strings.Lines(log) {
		var line takeoverLine
		// Some lines are from libraries, and not JSON.
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "took the Lease" {
			found = append(found, line)
		}
	}
	return found
}
