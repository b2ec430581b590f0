package tenant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// refusePatch returns a deny function that fails changes of a binding.
func refusePatch(err error) func(string, client.Object) error {
	return func(v string, o client.Object) error {
		if _, ok := o.(*rbacv1.RoleBinding); ok && v == "patch" {
			return err
		}
		return nil
	}
}

func changedMeanwhile() error {
	return apierrors.NewConflict(rbacv1.Resource("rolebindings"), adminBindingName, errors.New("changed"))
}

// A removed admin loses the rights whatever refuses the correction, and the others get theirs if
// the API server permits the desired binding.
func TestCorrectionThatIsPrevented(t *testing.T) {
	large := apierrors.NewInternalError(errors.New("trying to send message larger than max (2772577 vs. 2097152)"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "RoleBinding"}, adminBindingName, nil)
	// Without a reason of its own, a policy denies with the code of invalid content.
	byPolicy := apierrors.NewInvalid(schema.GroupKind{Kind: "RoleBinding"}, adminBindingName, nil)
	byPolicy.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Message: "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"}}
	for name, tc := range map[string]struct {
		deny       func(string, client.Object) error
		reconciles int
		want       string
	}{
		"nothing":                     {nil, 1, "admin ann bob"},
		"too large":                   {refusePatch(large), 1, "admin ann bob"},
		"invalid":                     {refusePatch(invalid), 1, "admin ann bob"},
		"a policy":                    {refusePatch(byPolicy), 1, "admin ann mallory"},
		"one Conflict is no contest":  {refusePatch(changedMeanwhile()), 1, "admin ann mallory"},
		"two Conflicts are a contest": {refusePatch(changedMeanwhile()), 2, "admin ann bob"},
		"another failure":             {refusePatch(errors.New("boom")), 1, "admin ann mallory"},
	} {
		t.Run(name, func(t *testing.T) {
			x := tenant("a", admins("ann", "bob"), owning("a-dev"))
			w := newWorld(t, x, namespace("a-dev", ownedBy(x)), bound(x, "ann", "mallory"))
			w.deny = tc.deny
			for range tc.reconciles {
				_ = w.reconcile() // a refusal is retried
			}
			if got := w.bindingText(); got != tc.want {
				t.Errorf("binding %q, want %q", got, tc.want)
			}
		})
	}
}

// Conflicts in a row are in the status, with the generation that they concern. A right that exists
// against the spec is never hidden behind the status of a former generation.
func TestConflictsInARowAreReported(t *testing.T) {
	x := tenant("a", admins("ann"), owning("a-dev"), func(t *v1beta1.Tenant) { t.Generation = 2 })
	x.Status.ObservedGeneration = 1
	x.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue,
		ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(epoch), Reason: v1beta1.ReasonReconciled}}
	w := newWorld(t, x, namespace("a-dev", ownedBy(x)), bound(x, "ann", "mallory"))
	w.deny = func(_ string, o client.Object) error {
		if b, ok := o.(*rbacv1.RoleBinding); ok && b.Name == adminBindingName {
			return changedMeanwhile()
		}
		return nil
	}
	for n, want := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		w.must(w.reconcile())
		if ready := w.ready(); ready.Status != want || (ready.ObservedGeneration == 2) != (n == 1) {
			t.Errorf("after %d Conflicts Ready is %s for generation %d", n+1, ready.Status, ready.ObservedGeneration)
		}
	}
	w.deny = nil
	w.must(w.reconcile())
	if got := w.bindingText(); got != "admin ann" || w.ready().Status != metav1.ConditionTrue {
		t.Errorf("binding %q and Ready %s, want that of ann and True", got, w.ready().Status)
	}
}

// A restricted binding keeps only subjects that equal an admin in each field.
func TestRestrictComparesWholeSubjects(t *testing.T) {
	account := v1beta1.Subject{Kind: v1beta1.SubjectServiceAccount, Name: "ci", Namespace: "build"}
	x := tenant("a", owning("a-dev"), func(t *v1beta1.Tenant) {
		t.Spec.Admins = append(t.Spec.Admins, account)
	})
	for name, other := range map[string]rbacv1.Subject{
		"namespace": {Kind: rbacv1.ServiceAccountKind, Name: "ci", Namespace: "elsewhere"},
		"name":      {Kind: rbacv1.ServiceAccountKind, Name: "other", Namespace: "build"},
		"kind":      {Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "ann"},
		"API group": {Kind: rbacv1.UserKind, APIGroup: "example.com", Name: "ann"},
	} {
		for at, subjectsOf := range map[string][]rbacv1.Subject{
			"first": append([]rbacv1.Subject{other}, subjects(x)...),
			"last":  append(subjects(x), other),
			// The cache shows only the first ones, which are all of an admin.
			"beyond the cached": append(slices.Repeat(subjects(x), v1beta1.MaxAdmins), other),
		} {
			b := bound(x)
			b.Subjects = subjectsOf
			ns := namespace("a-dev", ownedBy(x))
			w := newWorld(t, x.DeepCopy(), ns, b)
			w.cache = fakeBuilder(t, x.DeepCopy(), ns, slim(t, b.DeepCopy())).WithStatusSubresource(x).Build()
			w.r.Options.AdminClusterRole = "missing"
			w.must(w.reconcile())
			got := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)
			if got == nil || !slices.Equal(got.Subjects, subjects(x)) {
				t.Errorf("another %s, %s: %v, want only the admins", name, at, got)
			}
		}
	}
}

// An object that another object controls is not the Tenant's, whatever its labels are.
func TestReaderControlledByOtherIsForeign(t *testing.T) {
	x := tenant("a", owning("a-dev"))
	former := tenant("a", func(t *v1beta1.Tenant) { t.UID = "uid-former" })
	stranger := []metav1.OwnerReference{*metav1.NewControllerRef(namespace("z"),
		corev1.SchemeGroupVersion.WithKind("Namespace"))}
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		owned  bool
	}{
		"nothing":         {nil, true},
		"its predecessor": {[]metav1.OwnerReference{*metav1.NewControllerRef(former, tenantKind)}, true},
		"another object":  {stranger, false},
	} {
		m := childMeta(former)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: readerNamePrefix + "a", UID: "uid-reader",
			Labels: m.labels, Annotations: m.annotations, OwnerReferences: tc.owners}}
		if got := ownsReader(x, role); got != tc.owned {
			t.Errorf("controlled by %s: owned %t, want %t", name, got, tc.owned)
		}
		if tc.owned {
			continue
		}
		deleting := tenant("a", deleted)
		w := newWorld(t, deleting, role)
		w.must(w.reconcile())
		if find[rbacv1.ClusterRole](w, "", role.Name) == nil {
			t.Errorf("controlled by %s: the role was deleted with the Tenant", name)
		}
	}
}

// Between the declaration of a name and the creation the Tenant may change, which the cache does
// not show. Then nothing is created.
func TestNothingIsCreatedForAChangedTenant(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world, *v1beta1.Tenant) error
		want   bool
	}{
		"nothing": {func(*world, *v1beta1.Tenant) error { return nil }, true},
		"the spec": {func(w *world, t *v1beta1.Tenant) error {
			t.Spec.Namespaces = []v1beta1.NamespaceSuffix{"prod"}
			return w.live.Update(w.t.Context(), t)
		}, false},
		"deleted": {func(w *world, t *v1beta1.Tenant) error { return w.live.Delete(w.t.Context(), t) }, false},
	} {
		x := tenant("a", func(t *v1beta1.Tenant) { t.Status = intent(t, []string{"a-dev"}, epoch) })
		w := newWorld(t, x)
		w.must(tc.change(w, find[v1beta1.Tenant](w, "", "a")))
		w.must(w.reconcile())
		if got := find[corev1.Namespace](w, "", "a-dev") != nil; got != tc.want {
			t.Errorf("%s has changed: the namespace exists: %t, want %t", name, got, tc.want)
		}
	}
}

// The last step of a deletion removes false owner references. A Conflict there keeps the
// finalizer: without it the garbage collector would delete the foreign namespace.
func TestConflictKeepsTheFinalizer(t *testing.T) {
	x := tenant("a", deleted, naming("dev"))
	victim := namespace("victim")
	w := newWorld(t, x, victim)
	planted := find[corev1.Namespace](w, "", "victim")
	plant(planted)
	w.must(w.live.Update(t.Context(), planted)) // the cache does not show the reference
	conflicts := 2
	w.deny = func(verb string, o client.Object) error {
		if o.GetName() == "victim" && verb == "patch" && conflicts > 0 {
			conflicts--
			return changedMeanwhile()
		}
		return nil
	}
	for range 4 {
		w.must(w.reconcile())
		left := find[v1beta1.Tenant](w, "", "a")
		if ownerIndex(x, find[corev1.Namespace](w, "", "victim")) >= 0 && left == nil {
			t.Fatal("the Tenant is gone, and the namespace still has a reference to it")
		}
	}
	if conflicts > 0 || find[v1beta1.Tenant](w, "", "a") != nil {
		t.Errorf("%d Conflicts were not sent, or the Tenant was not released", conflicts)
	}
}

// Namespaces that only claim the Tenant cost a bounded number of requests, and those with an owner
// reference come first. A failure there does not decide the status.
func TestForeignNamespacesAreBounded(t *testing.T) {
	x := tenant("a", owning("a-dev"), admins("ann"))
	objects := []client.Object{x, namespace("a-dev", ownedBy(x)), bound(x, "ann", "mallory")}
	for i := range 5 * maxForeign {
		objects = append(objects, namespace(fmt.Sprintf("claims-%03d", i), func(ns *corev1.Namespace) {
			ns.Annotations = map[string]string{v1beta1.AnnotationTenantUID: "uid-a"}
		}))
	}
	victim := namespace("victim")
	plant(victim)
	w := newWorld(t, append(objects, victim)...)
	w.deny = func(_ string, o client.Object) error {
		if o.GetName() == "victim" {
			return errors.New("boom")
		}
		return nil
	}
	if err := w.reconcile(); err == nil || !strings.Contains(err.Error(), "disowning namespace victim: boom") {
		t.Errorf("reconcile() = %v, want the failure at the namespace with the reference", err)
	}
	o, err := w.r.observe(t.Context(), x)
	w.must(err)
	if len(o.foreign) != maxForeign || w.bindingText() != "admin ann" || w.ready().Status != metav1.ConditionTrue {
		t.Errorf("%d foreign namespaces read, binding %q, Ready %s", len(o.foreign), w.bindingText(), w.ready().Status)
	}
}

// A binding outside the Tenant's namespaces is not the operator's, also under the reserved name and
// with the Tenant's UID. In a namespace that was given away, the Tenant's own one goes.
func TestBindingsElsewhere(t *testing.T) {
	x, other := tenant("a", naming("prod"), owning("a-dev"), admins("ann")), tenant("b", prefix("a-"))
	w := newWorld(t, x, other, namespace("elsewhere"), binding("elsewhere", x),
		namespace("a-dev", ownedBy(other)), bound(x, "ann"))
	w.must(w.reconcile())
	if find[rbacv1.RoleBinding](w, "elsewhere", adminBindingName) == nil {
		t.Error("a binding outside the Tenant's namespaces was deleted")
	}
	if got := w.bindingText(); got != "" {
		t.Errorf("binding %q in a namespace that was given away", got)
	}
}
