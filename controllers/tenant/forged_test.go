package tenant

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"leasehold.dev/api/v1beta1"
)

// A review without credentials need not satisfy the schema. Its answer is short, whatever it has.
func TestForgedReviewsHaveShortAnswers(t *testing.T) {
	named := func(n int) *v1beta1.Tenant {
		forged := &v1beta1.Tenant{}
		forged.Name, forged.Spec.NamespacePrefix = "a", "a-"
		for i := range n {
			forged.Spec.Namespaces = append(forged.Spec.Namespaces, v1beta1.NamespaceSuffix(fmt.Sprint("A", i)))
		}
		return forged
	}
	w := &Webhook{} // it reads nothing
	const most = 64
	for what, validate := range map[string]func() error{
		"creation": func() error { _, err := w.ValidateCreate(t.Context(), named(most+1)); return err },
		"update":   func() error { _, err := w.ValidateUpdate(t.Context(), named(1), named(most+1)); return err },
		"update of such": func() error {
			_, err := w.ValidateUpdate(t.Context(), named(most+1), named(1))
			return err
		},
	} {
		err := validate()
		if !apierrors.IsInvalid(err) || len(err.Error()) > 200 ||
			!strings.Contains(err.Error(), "must have at most 64 items") {
			t.Errorf("%s: got %.300v, want one short error", what, err)
		}
	}
	longest := named(most)
	longest.Name, longest.Spec.NamespacePrefix = strings.Repeat("a", 253), strings.Repeat("b", 253)
	longest.Spec.Namespaces[0] = v1beta1.NamespaceSuffix(strings.Repeat("c", 63))
	if err := validateForm(longest); err != nil {
		t.Errorf("got %v for what the API server permits at most", err)
	}
	long := strings.Repeat("<", 1<<20)
	for what, with := range map[string]func(*v1beta1.Tenant){
		"name":   func(t *v1beta1.Tenant) { t.Name = long },
		"prefix": func(t *v1beta1.Tenant) { t.Spec.NamespacePrefix = long },
		"suffix": func(t *v1beta1.Tenant) { t.Spec.Namespaces[0] = v1beta1.NamespaceSuffix(long) },
		"status": func(t *v1beta1.Tenant) { // its creation is refused for the number
			t.Spec.Namespaces = make([]v1beta1.NamespaceSuffix, most+1)
			t.Status.Namespaces = []v1beta1.TenantNamespace{{Name: long, UID: "a"}}
		},
	} {
		forged := named(1)
		with(forged)
		_, created := w.ValidateCreate(t.Context(), forged.DeepCopy())
		warnings, err := w.ValidateDelete(t.Context(), forged)
		if created == nil || len(created.Error()) > 200 || len(warnings) > 0 || err != nil {
			t.Errorf("%s: got %.300v for a creation, %d warnings for a deletion", what, created, len(warnings))
		}
	}
}
