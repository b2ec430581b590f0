package tenant

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

// Each correction for a Ready Tenant is reported by one event. Without a write there is no
// event.
func TestCorrectionIsReportedOnce(t *testing.T) {
	former := metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "Tenant", Name: "a",
		UID: "uid-former"}
	for name, tc := range map[string]struct {
		drift func(*world) error
		want  int
	}{
		"nothing": {func(*world) error { return nil }, 0},
		"a label of a foreign namespace": {func(w *world) error {
			ns := find[corev1.Namespace](w, "", "a-dev")
			ns.Labels["example.com/other"] = "x"
			return w.live.Update(w.t.Context(), ns)
		}, 0},
		"a label of a namespace": {func(w *world) error {
			ns := find[corev1.Namespace](w, "", "a-dev")
			delete(ns.Labels, v1beta1.LabelTenant)
			return w.live.Update(w.t.Context(), ns)
		}, 1},
		"a predecessor's reference on a namespace": {func(w *world) error {
			ns := find[corev1.Namespace](w, "", "a-dev")
			ns.OwnerReferences = append(ns.OwnerReferences, former)
			return w.live.Update(w.t.Context(), ns)
		}, 1},
		"the binding, changed": {func(w *world) error {
			b := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)
			b.Subjects = append(b.Subjects, user("mallory"))
			return w.live.Update(w.t.Context(), b)
		}, 1},
		"the binding, deleted": {func(w *world) error {
			return w.live.Delete(w.t.Context(), find[rbacv1.RoleBinding](w, "a-dev", adminBindingName))
		}, 1},
		"a binding elsewhere that claims to be the Tenant's": {func(w *world) error {
			return w.live.Create(w.t.Context(), binding("elsewhere", tenant("a")))
		}, 0},
		"the readers' role": {func(w *world) error {
			return w.live.Delete(w.t.Context(), find[rbacv1.ClusterRole](w, "", readerNamePrefix+"a"))
		}, 1},
		"the readers' binding": {func(w *world) error {
			b := find[rbacv1.ClusterRoleBinding](w, "", readerNamePrefix+"a")
			b.Subjects = nil
			return w.live.Update(w.t.Context(), b)
		}, 1},
		// Only a manual edit of the status adds a namespace without a new generation.
		"a namespace that the spec does not name, released": {func(w *world) error {
			x := find[v1beta1.Tenant](w, "", "a")
			owning("a-old")(x)
			return errors.Join(w.live.Create(w.t.Context(), namespace("a-old", ownedBy(x))),
				w.live.Status().Update(w.t.Context(), x))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tenant("a", retaining))
			updated := func() int {
				w.sync()
				w.must(w.reconcile())
				return w.eventsOf(v1beta1.EventUpdated)
			}
			if first, again := updated(), updated(); first != 1 || again != 0 {
				t.Fatalf("%d events when it became Ready and %d after that, want one and none", first, again)
			}
			w.must(tc.drift(w))
			if first, again := updated(), updated(); first != tc.want || again != 0 {
				t.Errorf("%d events and %d after that, want %d and none", first, again, tc.want)
			}
		})
	}
}
