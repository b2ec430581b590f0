package tenant

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// bindingText returns the role and the users of the admins' binding; "" if there is none.
func (w *world) bindingText() string {
	w.T.Helper()
	b := find[rbacv1.RoleBinding](w, "a-dev", adminBindingName)
	if b == nil {
		return ""
	}
	text := b.RoleRef.Name
	for _, s := range b.Subjects {
		text += " " + s.Name
	}
	return text
}

// changed is the API server's error for a write of an object that has changed.
func changed() error {
	return apierrors.NewConflict(corev1.Resource("x"), "x", errors.New("changed"))
}
