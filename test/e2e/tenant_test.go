package e2e

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// team is a Tenant with an admin of each kind. The service account is called the
// same in every team; it is in a namespace that the Tenant has first to make.
type team struct {
	*v1beta1.Tenant
	dev, prod   string
	user, group string
}

func newTeam(base string) team {
	t := newTenant(unique(base), "dev", "prod")
	dev := t.Name + "-dev"
	t.Spec.Admins = append(t.Spec.Admins,
		v1beta1.Subject{Kind: v1beta1.SubjectGroup, Name: t.Name + "-crew"},
		v1beta1.Subject{Kind: v1beta1.SubjectServiceAccount, Name: "robot", Namespace: dev})
	return team{Tenant: t, dev: dev, prod: t.Name + "-prod", user: t.Name + "-admin", group: t.Name + "-crew"}
}

// admins are the team's admins as the API server knows them: user and groups.
func (t team) admins() map[string][]string {
	return map[string][]string{
		t.user:  nil,
		"alice": {t.group},
		"system:serviceaccount:" + t.dev + ":robot": {"system:serviceaccounts", "system:serviceaccounts:" + t.dev},
	}
}

// robot logs in as the team's service account, as a Pod of it would.
func (t team) robot(ctx context.Context, g *WithT) client.Client {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: t.dev, Name: "robot"}}
	g.Expect(shared.client.Create(ctx, account)).To(Succeed())
	return withToken(g, token(ctx, g, account))
}

// forbidden matches what the authorizer or an admission plugin refuses.
func forbidden() OmegaMatcher {
	return WithTransform(apierrors.IsForbidden, BeTrue())
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestTenant(t *testing.T) {
	one, other := newTeam("one"), newTeam("other")
	afterwards(t, func(ctx context.Context, g *WithT) { remove(ctx, g, one.Tenant, other.Tenant) })
	testenv.Test(t, features.New("A Tenant").
		Assess("gets namespaces in which Pods run, under the pod-security level", step(one.runsPods)).
		Assess("is told of by events in `default`", step(func(ctx context.Context, g *WithT) {
			for _, reason := range []string{v1beta1.EventUpdated, v1beta1.EventNamespaceCreated} {
				await(ctx, g, eventsOf(one.Tenant), expect.ContainEvent(expect.Event{Type: corev1.EventTypeNormal, Reason: reason}))
			}
			g.Expect(shared.kubectl(ctx, "events", "--for=tenant.leasehold.dev/"+one.Name)).
				To(ContainSubstring("created namespace " + one.dev))
		})).
		Assess("gives its admins no right to the namespaces themselves, by any subresource", step(one.reachNoNamespace)).
		Assess("lets its admins give others no more than they have", step(one.giveNoMore)).
		Assess("is not mixed up with another that has an admin of the same name", step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.client.Create(ctx, other.Tenant)).To(Succeed())
			await(ctx, g, tenantReady(other.Tenant), Succeed())
			robots := map[string]client.Client{one.Name: one.robot(ctx, g), other.Name: other.robot(ctx, g)}
			for _, mine := range []team{one, other} {
				for _, its := range []team{one, other} {
					for _, namespace := range []string{its.dev, its.prod} {
						err := robots[mine.Name].Create(ctx, configMap(namespace, "of-"+mine.Name))
						if mine.Name == its.Name {
							g.Expect(err).NotTo(HaveOccurred(), namespace)
						} else {
							g.Expect(err).To(forbidden(), namespace)
						}
					}
				}
				g.Expect(robots[mine.Name].Get(ctx, client.ObjectKeyFromObject(mine), &v1beta1.Tenant{})).To(Succeed())
			}
			g.Expect(robots[one.Name].Get(ctx, client.ObjectKeyFromObject(other), &v1beta1.Tenant{})).To(forbidden())
		})).
		Assess("restores its ownership metadata when a user has removed it", step(one.restoresMarks)).
		Assess("takes the rights of those who are admins no more", step(one.takesRights)).
		Feature())
}

// runsPods: the namespaces are complete, so an admin can work in them at once.
func (t team) runsPods(ctx context.Context, g *WithT) {
	g.Expect(shared.client.Create(ctx, t.Tenant)).To(Succeed())
	await(ctx, g, tenantReady(t.Tenant), Succeed())
	admin := as(g, t.user)
	// Pods need the ServiceAccount that kube-controller-manager makes.
	await(ctx, g, func() error { return admin.Create(ctx, newPod(t.dev, "worker")) }, Succeed())
	await(ctx, g, read(newPod(t.dev, "worker")), HaveField("Status.Phase", corev1.PodRunning))

	privileged := newPod(t.dev, "privileged")
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	err := admin.Create(ctx, privileged)
	g.Expect(err).To(forbidden())
	g.Expect(err).To(MatchError(ContainSubstring(`violates PodSecurity "baseline`)))
	g.Expect(admin.Create(ctx, newPod(metav1.NamespaceDefault, "elsewhere"))).To(forbidden())

	// Our own kinds are for tenants: the built-in roles have them.
	for _, resource := range []string{"storagebuckets", "markdownviews"} {
		g.Expect(may(ctx, t.user, nil, authorizationv1.ResourceAttributes{
			Verb: "create", Group: v1beta1.GroupVersion.Group, Resource: resource, Namespace: t.dev})).To(BeTrue(), resource)
	}
}

// reachNoNamespace checks the right to every write of all resources of namespaces and
// Tenants that discovery lists, and tries the most harmful ones.
func (t team) reachNoNamespace(ctx context.Context, g *WithT) {
	paths := sets.New[string]()
	for _, version := range []string{"v1", v1beta1.GroupVersion.String()} {
		list, err := shared.cluster.Clients().Discovery().ServerResourcesForGroupVersion(version)
		g.Expect(err).NotTo(HaveOccurred())
		for _, r := range list.APIResources {
			if name, _, _ := strings.Cut(r.Name, "/"); name == "namespaces" || name == "tenants" {
				paths.Insert(r.Name)
			}
		}
	}
	g.Expect(paths.HasAll("namespaces", "namespaces/status", "namespaces/finalize", "tenants", "tenants/status")).
		To(BeTrue(), "%v", paths)
	paths.Insert("tenants/finalizers") // it has no endpoint, but there are rights to it
	for path := range paths {
		resource, subresource, _ := strings.Cut(path, "/")
		what := authorizationv1.ResourceAttributes{Resource: resource, Subresource: subresource, Namespace: t.dev,
			Name: t.dev}
		if resource == "tenants" {
			what.Group, what.Namespace, what.Name = v1beta1.GroupVersion.Group, "", t.Name
		}
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			what.Verb = verb
			g.Expect(may(ctx, "root", []string{"system:masters"}, what)).To(BeTrue(), "the control: %s %s", verb, path)
			for user, groups := range t.admins() {
				g.Expect(may(ctx, user, groups, what)).To(BeFalse(), "%s %s as %s", verb, path, user)
			}
		}
		if what.Verb = "get"; subresource == "" {
			for user, groups := range t.admins() {
				g.Expect(may(ctx, user, groups, what)).To(BeTrue(), "get %s as %s", path, user)
			}
		}
	}
	for user, groups := range t.admins() {
		admin, ns := as(g, user, groups...), namespaceOf(t.dev)
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
		ns.Labels["pod-security.kubernetes.io/enforce"], ns.OwnerReferences, ns.Spec.Finalizers = "privileged", nil, nil
		g.Expect(admin.Update(ctx, ns)).To(forbidden())
		g.Expect(admin.Status().Update(ctx, ns)).To(forbidden())
		g.Expect(admin.SubResource("finalize").Update(ctx, ns)).To(forbidden())
		g.Expect(admin.Delete(ctx, ns)).To(forbidden())
	}
}

// giveNoMore: admins manage the rights in their namespaces, and the API server
// holds them to what they have.
func (t team) giveNoMore(ctx context.Context, g *WithT) {
	admin := as(g, "alice", t.group)
	bind := func(role string) error {
		return admin.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.dev, Name: "to-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "bob"}},
		})
	}
	g.Expect(bind("cluster-admin")).To(forbidden())
	g.Expect(bind("view")).To(Succeed())
	for resource, group := range map[string]string{"resourcequotas": "", "limitranges": "",
		"clusterrolebindings": rbacv1.GroupName} {
		what := authorizationv1.ResourceAttributes{Verb: "create", Group: group, Resource: resource, Namespace: t.dev}
		g.Expect(may(ctx, "alice", []string{t.group}, what)).To(BeFalse(), resource)
	}
}

// restoresMarks: who may strip them is no admin of the team, and the garbage
// collector and admission go by them.
func (t team) restoresMarks(ctx context.Context, g *WithT) {
	ns := namespaceOf(t.dev)
	change(ctx, g, ns, func(ns *corev1.Namespace) {
		ns.OwnerReferences, ns.Annotations = nil, nil
		ns.Labels = map[string]string{"kubernetes.io/metadata.name": ns.Name,
			"pod-security.kubernetes.io/enforce": "privileged"}
	})
	await(ctx, g, read(ns), And(
		expect.BeControlledBy(t.Tenant),
		HaveField("Annotations", HaveKeyWithValue(v1beta1.AnnotationTenantUID, string(t.UID))),
		HaveField("Labels", And(
			HaveKeyWithValue(v1beta1.LabelTenant, t.Name),
			HaveKeyWithValue("pod-security.kubernetes.io/enforce", "baseline")))))
	await(ctx, g, tenantReady(t.Tenant), Succeed())
}

// takesRights replaces all admins by another user, and checks that only she has rights.
func (t team) takesRights(ctx context.Context, g *WithT) {
	first, second := as(g, t.user), as(g, "carol")
	allowed := func(c client.Client) func() error {
		return func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace(t.prod)) }
	}
	g.Expect(allowed(first)()).To(Succeed())
	g.Expect(allowed(second)()).To(forbidden())
	change(ctx, g, t.Tenant, func(t *v1beta1.Tenant) {
		t.Spec.Admins = []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "carol"}}
	})
	await(ctx, g, tenantReady(t.Tenant), Succeed())
	// The authorizer follows by a watch of its own.
	await(ctx, g, allowed(second), Succeed())
	for user, groups := range t.admins() {
		await(ctx, g, allowed(as(g, user, groups...)), forbidden(), user)
		await(ctx, g, func() error {
			return as(g, user, groups...).Get(ctx, client.ObjectKeyFromObject(t), &v1beta1.Tenant{})
		}, forbidden(), user)
	}
}
