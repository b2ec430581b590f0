package e2e

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// home is a Tenant with one namespace, and a Pod in it that must not notice
// anything as long as the namespace stays.
type home struct {
	*v1beta1.Tenant
	namespace *corev1.Namespace
	pod       *corev1.Pod
}

func newHome(base string, policy v1beta1.NamespaceDeletionPolicy) home {
	t := newTenant(unique(base), "dev")
	t.Spec.NamespaceDeletionPolicy = policy
	return home{t, namespaceOf(t.Name + "-dev"), newPod(t.Name+"-dev", "worker")}
}

// inhabit creates homes and waits until their Pods run.
func inhabit(ctx context.Context, g *WithT, homes ...home) {
	for _, h := range homes {
		g.Expect(shared.client.Create(ctx, h.Tenant)).To(Succeed())
	}
	for _, h := range homes {
		await(ctx, g, tenantReady(h.Tenant), Succeed())
		await(ctx, g, func() error { return shared.client.Create(ctx, h.pod) }, Succeed())
	}
	for _, h := range homes {
		g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(h.namespace), h.namespace)).To(Succeed())
		await(ctx, g, read(h.pod), HaveField("Status.Phase", corev1.PodRunning))
	}
}

// abandon removes what is left of homes.
func abandon(ctx context.Context, g *WithT, homes ...home) {
	var tenants, namespaces []client.Object
	for _, h := range homes {
		tenants, namespaces = append(tenants, h.Tenant), append(namespaces, h.namespace)
	}
	remove(ctx, g, tenants...)
	discard(ctx, g, namespaces...)
}

// lived: the namespace and the Pod are the ones that there were, and nothing is
// about to end them.
func (h home) lived(ctx context.Context, g *WithT) {
	g.Expect(read(namespaceOf(h.namespace.Name))(ctx)).To(And(
		HaveField("UID", h.namespace.UID), HaveField("DeletionTimestamp", BeNil())))
	g.Expect(read(newPod(h.pod.Namespace, h.pod.Name))(ctx)).To(And(
		HaveField("UID", h.pod.UID), HaveField("DeletionTimestamp", BeNil()), HaveField("Status.Phase", corev1.PodRunning),
		HaveField("Status.ContainerStatuses", ConsistOf(HaveField("RestartCount", BeZero())))))
}

// free: nothing of the Tenant is left on the namespace or in it.
func (h home) free(ctx context.Context, g *WithT) {
	g.Expect(read(namespaceOf(h.namespace.Name))(ctx)).To(And(
		HaveField("OwnerReferences", BeEmpty()),
		HaveField("Annotations", Not(HaveKey(v1beta1.AnnotationTenantUID))),
		HaveField("Labels", Not(HaveKey(v1beta1.LabelTenant)))))
	g.Expect(as(g, h.Name+"-admin").List(ctx, &corev1.PodList{}, client.InNamespace(h.namespace.Name))).To(forbidden())
}

// collected waits until the garbage collector has removed something made just
// now, so that it has seen, too, all that was there before.
func collected(ctx context.Context, g *WithT) {
	stray := configMap(metav1.NamespaceDefault, unique("stray"))
	stray.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "never",
		UID: types.UID(unique("never"))}}
	g.Expect(shared.client.Create(ctx, stray)).To(Succeed())
	await(ctx, g, gone(stray), Succeed())
}

func TestTenantDeletion(t *testing.T) {
	background, foreground := newHome("gone", v1beta1.NamespaceDelete), newHome("fore", v1beta1.NamespaceDelete)
	kept, cascaded := newHome("kept", v1beta1.NamespaceRetain), newHome("cascade", v1beta1.NamespaceRetain)
	all := []home{background, foreground, kept, cascaded}
	afterwards(t, func(ctx context.Context, g *WithT) { abandon(ctx, g, all...) })
	testenv.Test(t, features.New("Deleting a Tenant").
		Assess("whose namespaces are in use", step(func(ctx context.Context, g *WithT) {
			inhabit(ctx, g, all...)
			for _, h := range all {
				how := metav1.DeletePropagationBackground
				if h == foreground || h == cascaded {
					how = metav1.DeletePropagationForeground
				}
				g.Expect(shared.client.Delete(ctx, h.Tenant, client.PropagationPolicy(how))).To(Succeed())
			}
		})).
		Assess("ends them, under Delete, before it goes itself", step(func(ctx context.Context, g *WithT) {
			for _, h := range []home{background, foreground} {
				await(ctx, g, gone(h.Tenant), Succeed())
				g.Expect(gone(namespaceOf(h.namespace.Name))(ctx)).To(Succeed())
			}
			await(ctx, g, eventsOf(background.Tenant), expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventNamespaceDeleted}))
		})).
		Assess("leaves them as they are, under Retain, whatever the cascade", step(func(ctx context.Context, g *WithT) {
			for _, h := range []home{kept, cascaded} {
				await(ctx, g, gone(h.Tenant), Succeed())
			}
			collected(ctx, g)
			for _, h := range []home{kept, cascaded} {
				h.lived(ctx, g)
				h.free(ctx, g)
			}
			await(ctx, g, eventsOf(cascaded.Tenant), expect.ContainEvent(
				expect.Event{Type: corev1.EventTypeNormal, Reason: v1beta1.EventNamespaceRetained}))
		})).
		Feature())
}

func TestTenantDefinition(t *testing.T) {
	kept, next := newHome("outlive", v1beta1.NamespaceRetain), newHome("next", v1beta1.NamespaceDelete)
	var before []corev1.Pod
	afterwards(t, func(ctx context.Context, g *WithT) {
		g.Expect(shared.deploy(ctx)).To(Succeed())
		await(ctx, g, func() error { return shared.client.List(ctx, &v1beta1.TenantList{}) }, Succeed())
		abandon(ctx, g, kept, next)
	})
	testenv.Test(t, features.New("Deleting the CustomResourceDefinition").
		Assess("deletes the Tenants and leaves what is under Retain", step(func(ctx context.Context, g *WithT) {
			inhabit(ctx, g, kept)
			var err error
			before, err = shared.pods(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(shared.kubectl(ctx, "delete", "crd", "tenants.leasehold.dev", "--timeout=1m")).
				To(ContainSubstring("deleted"))
			g.Expect(shared.client.List(ctx, &v1beta1.TenantList{})).To(WithTransform(apierrors.IsNotFound, BeTrue()))
			collected(ctx, g)
			kept.lived(ctx, g)
			kept.free(ctx, g)
		})).
		Assess("and the operator works again when it is back", step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.deploy(ctx)).To(Succeed())
			inhabit(ctx, g, next)
			after, err := shared.pods(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(lives(after)).To(Equal(lives(before)), "without a restart")
			kept.lived(ctx, g)
		})).
		Feature())
}

// lives returns one text for each Pod and number of restarts.
func lives(pods []corev1.Pod) []string {
	var all []string
	for _, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			all = append(all, fmt.Sprintf("%s %s %d", p.UID, c.Name, c.RestartCount))
		}
	}
	return all
}

func TestControllerManagerRestart(t *testing.T) {
	stays, retained := newHome("stays", v1beta1.NamespaceDelete), newHome("retained", v1beta1.NamespaceRetain)
	goes, comes := newHome("goes", v1beta1.NamespaceDelete), newHome("comes", v1beta1.NamespaceDelete)
	view := newView(unique("view"))
	children := viewChildren(view)
	afterwards(t, func(ctx context.Context, g *WithT) {
		g.Expect(shared.startControllerManager(ctx)).To(Succeed())
		abandon(ctx, g, stays, retained, goes, comes)
		discard(ctx, g, namespaceOf(view.Namespace))
	})
	testenv.Test(t, features.New("A kube-controller-manager that is away for a while").
		Assess("leaves work undone", step(func(ctx context.Context, g *WithT) {
			strictNamespace(ctx, g, view.Namespace)
			g.Expect(shared.client.Create(ctx, view)).To(Succeed())
			inhabit(ctx, g, stays, retained, goes)
			await(ctx, g, viewReady(view), Succeed())
			for _, child := range children {
				g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(child), child)).To(Succeed())
			}
			g.Expect(shared.stopControllerManager(ctx)).To(Succeed())

			g.Expect(shared.client.Delete(ctx, goes.Tenant)).To(Succeed())
			g.Expect(shared.client.Create(ctx, comes.Tenant)).To(Succeed())
			await(ctx, g, read(goes.Tenant),
				expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonDeleting))
			await(ctx, g, tenantReady(comes.Tenant), Succeed())
			g.Expect(read(namespaceOf(goes.namespace.Name))(ctx)).To(expect.BeTerminating())
			g.Expect(shared.client.Create(ctx, comes.pod)).NotTo(Succeed(), "no controller creates its service account")
		})).
		Assess("which it makes up for when it is back", step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.startControllerManager(ctx)).To(Succeed())
			await(ctx, g, gone(goes.Tenant), Succeed())
			g.Expect(gone(namespaceOf(goes.namespace.Name))(ctx)).To(Succeed())
			await(ctx, g, func() error { return shared.client.Create(ctx, comes.pod) }, Succeed())
			await(ctx, g, read(comes.pod), HaveField("Status.Phase", corev1.PodRunning))
		})).
		Assess("and it deletes nothing that has an owner of ours (bug class 21)", step(func(ctx context.Context, g *WithT) {
			collected(ctx, g)
			for _, h := range []home{stays, retained} {
				h.lived(ctx, g)
				g.Expect(tenantReady(h.Tenant)(ctx)).To(Succeed())
			}
			for _, child := range children {
				now := child.DeepCopyObject().(client.Object)
				g.Expect(read(now)(ctx)).To(And(HaveField("GetUID()", child.GetUID()),
					HaveField("GetDeletionTimestamp()", BeNil())))
			}
			g.Expect(shared.badOwners(ctx)).To(BeEmpty())
			var list corev1.EventList
			g.Expect(shared.client.List(ctx, &list)).To(Succeed())
			g.Expect(list.Items).NotTo(ContainElement(HaveField("Reason", "OwnerRefInvalidNamespace")))
		})).
		Feature())
}

// badOwners are owners of our kinds, on objects of any kind, that are not there,
// or not where an owner may be: the garbage collector takes that for an order.
func (s *suite) badOwners(ctx context.Context) ([]string, error) {
	objects, err := s.cluster.Objects(ctx)
	if err != nil {
		return nil, err
	}
	spaces := map[types.UID]string{}
	for _, o := range objects {
		spaces[o.GetUID()] = o.GetNamespace()
	}
	var bad []string
	seen := 0
	for _, o := range objects {
		for _, owner := range o.GetOwnerReferences() {
			if owner.APIVersion != v1beta1.GroupVersion.String() {
				continue
			}
			seen++
			if space, there := spaces[owner.UID]; !there || space != "" && space != o.GetNamespace() {
				bad = append(bad, fmt.Sprintf("%s %s/%s is owned by %s %s", o.GetKind(), o.GetNamespace(), o.GetName(), owner.Kind,
					owner.Name))
			}
		}
	}
	if seen == 0 {
		return nil, fmt.Errorf("none of %d objects has an owner of ours", len(objects))
	}
	return bad, nil
}
