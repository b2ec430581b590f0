package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
)

// The status has a maximum number of names. Names beyond it are refused unless the status
// records them already.
func TestStatusLimitsNames(t *testing.T) {
	holdingMany := func(n int) func(*v1beta1.Tenant) {
		return func(t *v1beta1.Tenant) {
			for i := range n {
				owning(fmt.Sprintf("old-%d", i))(t)
			}
		}
	}
	for held, tc := range map[int]struct {
		tenant  *v1beta1.Tenant
		refused []string
		invalid bool
	}{
		v1beta1.MaxStatusNamespaces - 1: {tenant: tenant("a", holdingMany(v1beta1.MaxStatusNamespaces-2))},
		v1beta1.MaxStatusNamespaces:     {tenant: tenant("a", holdingMany(v1beta1.MaxStatusNamespaces-1))},
		v1beta1.MaxStatusNamespaces + 1: {
			tenant:  tenant("a", naming("dev", "prod"), owning("a-prod"), holdingMany(v1beta1.MaxStatusNamespaces-1)),
			refused: []string{"a-dev"}, invalid: true},
	} {
		if n := len(usedNames(tc.tenant)); n != held {
			t.Fatalf("%d names, want %d", n, held)
		}
		refused, errs := refusedNames(tc.tenant, "leasehold-system")
		var got []string
		for name := range refused {
			got = append(got, name)
		}
		if !slices.Equal(got, tc.refused) || (len(errs) > 0) != tc.invalid {
			t.Errorf("%d names: refused %q (%v), want %q", held, got, errs, tc.refused)
		}
	}
}

// A released namespace loses only the Tenant's ownership metadata and references to
// predecessors. The garbage collector would delete it for a reference to a deleted owner.
func TestRemoveOwnershipMeta(t *testing.T) {
	a, other := tenant("a"), tenant("b")
	former := tenant("a", func(t *v1beta1.Tenant) { t.UID = "uid-former" })
	ref := func(t *v1beta1.Tenant) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: tenantKind.GroupVersion().String(), Kind: tenantKind.Kind, Name: t.Name,
			UID: t.UID}
	}
	stranger := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "uid-stranger"}
	bare := metav1.ObjectMeta{Name: "a-dev", UID: "uid-a-dev"}
	of := func(labels, annotations map[string]string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
		m := bare
		m.Labels, m.Annotations, m.OwnerReferences = labels, annotations, owners
		return m
	}
	type texts = map[string]string
	for name, tc := range map[string]struct {
		before, after metav1.ObjectMeta
		had           bool
	}{
		"nothing": {bare, bare, false},
		"all marks": {namespace("a-dev", ownedBy(a)).ObjectMeta,
			of(texts{labelPodSecurity: "baseline"}, texts{}), true},
		"an owner reference": {of(nil, nil, ref(a)), bare, true},
		"a predecessor's":    {of(nil, nil, ref(former)), bare, true},
		"one among others": {of(nil, nil, stranger, ref(former), ref(other), ref(a)),
			of(nil, nil, stranger, ref(other)), true},
		"others' only":    {of(nil, nil, stranger, ref(other)), of(nil, nil, stranger, ref(other)), false},
		"the label":       {of(texts{v1beta1.LabelTenant: "a", "x": "y"}, nil), of(texts{"x": "y"}, nil), true},
		"another's label": {of(texts{v1beta1.LabelTenant: "b"}, nil), of(texts{v1beta1.LabelTenant: "b"}, nil), false},
		"who manages it":  {of(texts{v1beta1.LabelManagedBy: v1beta1.ManagedByValue}, nil), of(texts{}, nil), true},
		"who else manages it": {of(texts{v1beta1.LabelManagedBy: "helm"}, nil),
			of(texts{v1beta1.LabelManagedBy: "helm"}, nil), false},
		"the mark": {of(nil, texts{v1beta1.AnnotationTenantUID: "uid-a", "x": "y"}), of(nil, texts{"x": "y"}), true},
		"another's mark": {of(nil, texts{v1beta1.AnnotationTenantUID: "uid-b"}),
			of(nil, texts{v1beta1.AnnotationTenantUID: "uid-b"}), false},
	} {
		ns := &corev1.Namespace{ObjectMeta: *tc.before.DeepCopy()}
		had := removeOwnershipMeta(a, ns)
		if diff := cmp.Diff(tc.after, ns.ObjectMeta); diff != "" || had != tc.had {
			t.Errorf("%s: changed %t, want %t; metadata (-want +got):\n%s", name, had, tc.had, diff)
		}
	}
}

// The API server returns lists in pages. A false owner reference on the last page would
// delete a foreign namespace as well.
func TestFalseReferencesAreRemovedOnEachPage(t *testing.T) {
	objects := []client.Object{tenant("a", deleted)}
	const strangers, perPage = 7, 3
	for i := range strangers {
		objects = append(objects, namespace(fmt.Sprintf("x-%d", i), plant))
	}
	w := newWorld(t, objects...)
	for i := range strangers { // the cache has not seen the references
		w.must(w.cache.Delete(t.Context(), namespace(fmt.Sprintf("x-%d", i))))
	}
	pages := 0
	w.r.Live = interceptor.NewClient(w.live, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			metadata, ok := list.(*metav1.PartialObjectMetadataList)
			if !ok {
				return c.List(ctx, list, opts...)
			}
			pages++
			return page(ctx, c, metadata, perPage, opts...)
		},
	})
	w.must(w.reconcile())
	for i := range strangers {
		if ns := find[corev1.Namespace](w, "", fmt.Sprintf("x-%d", i)); ns == nil || len(ns.OwnerReferences) > 0 {
			t.Errorf("namespace x-%d has a false reference, or was deleted: %+v", i, ns)
		}
	}
	if want := 3; pages != want {
		t.Errorf("%d pages were read, want %d", pages, want)
	}
}

// The namespaces are listed once, as the last step: not as long as a child remains. Otherwise a
// Tenant that cannot be released would list them all with each retry.
func TestLastStepOfRelease(t *testing.T) {
	w := newWorld(t, provision(nil, deleted, retaining)...)
	lists := 0
	w.r.Live = interceptor.NewClient(w.live, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*metav1.PartialObjectMetadataList); ok {
				lists++
			}
			return c.List(ctx, list, opts...)
		},
	})
	w.deny = func(verb string, o client.Object) error {
		if _, isRole := o.(*rbacv1.ClusterRole); isRole && verb == "delete" {
			return errors.New("no answer")
		}
		return nil
	}
	if err := w.reconcile(); err == nil || lists != 0 {
		t.Errorf("error %v and %d lists of namespaces while the role remains, want an error and none", err, lists)
	}
	w.sync()
	w.deny = nil
	w.must(w.reconcile())
	if find[v1beta1.Tenant](w, "", "a") != nil || lists != 1 {
		t.Errorf("the Tenant remains, or %d lists of namespaces, want 1", lists)
	}
}

// A namespace that is bound, and nothing in the way: one reconcile releases it.
func TestReleaseInOneReconcile(t *testing.T) {
	w := newWorld(t, provision(nil, deleted, retaining)...)
	w.must(w.reconcile())
	if find[v1beta1.Tenant](w, "", "a") != nil || find[rbacv1.RoleBinding](w, "a-dev", adminBindingName) != nil {
		t.Error("the Tenant or its binding remains after one reconcile")
	}
	if ns := find[corev1.Namespace](w, "", "a-dev"); ns == nil || len(ns.OwnerReferences) > 0 {
		t.Errorf("the namespace is deleted or still owned: %+v", ns)
	}
}

// page lists as an API server with size objects per page does.
func page(ctx context.Context, c client.Client, into *metav1.PartialObjectMetadataList, size int,
	opts ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(opts)
	if err := c.List(ctx, into); err != nil {
		return err
	}
	from := 0
	if asked.Continue != "" {
		if _, err := fmt.Sscan(asked.Continue, &from); err != nil {
			return fmt.Errorf("reading the token: %w", err)
		}
	}
	to := min(from+size, len(into.Items))
	if to < len(into.Items) {
		into.Continue = fmt.Sprint(to)
	}
	into.Items = into.Items[from:to]
	return nil
}

// The namespace controller deletes the binding of a terminating namespace, but may come late. One
// that a finalizer holds back, or that has a removed admin, would grant rights for longer.
func TestBindingOfTerminatingNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*rbacv1.RoleBinding)
		stays  bool
	}{
		"plain": {func(*rbacv1.RoleBinding) {}, true},
		"held":  {func(b *rbacv1.RoleBinding) { heldBack(b) }, false},
		"with a removed admin": {func(b *rbacv1.RoleBinding) {
			b.Subjects = append(b.Subjects, subjects(tenant("a", admins("bob")))...)
		}, true},
		"with removed admins only": {func(b *rbacv1.RoleBinding) {
			b.Subjects = subjects(tenant("a", admins("bob")))
		}, false},
		"held, of a Tenant that names it": {func(b *rbacv1.RoleBinding) {
			other := childMeta(tenant("b"))
			heldBack(b)
			b.Labels, b.Annotations, b.OwnerReferences = other.labels, other.annotations, []metav1.OwnerReference{*other.owner}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := tenant("a", admins("ann"), owning("a-dev"))
			ending, b := namespace("a-dev", ownedBy(x), func(ns *corev1.Namespace) {
				ns.DeletionTimestamp = &metav1.Time{Time: epoch}
				heldBack(ns)
			}), bound(x, "ann")
			tc.change(b)
			w := newWorld(t, x, ending, b, tenant("b", prefix("a-")))
			_ = w.reconcile() // the other Tenant's binding is reported
			got := w.bindingText()
			if (got != "") != tc.stays || strings.Contains(got, "bob") {
				t.Errorf("the binding is %q, want it to stay: %t, without bob", got, tc.stays)
			}
		})
	}
}
