// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"leasehold.dev/api/v1beta1"
)

// TestAdmissionGolden records each response of the webhooks in full, as kubectl prints it.
func TestAdmissionGolden(t *testing.T) {
	boom := errors.New("boom")
	names := func(t *v1beta1.Tenant) { t.Name, t.Spec.NamespacePrefix = "team", "team-" }
	conflicting := listing("a-x", v1beta1.ReasonNamespaceConflict)
	objects := []client.Object{
		tenant("team-a", naming("x"), prefix("")),      // team-a-x
		tenant("zeta", naming("a-x"), prefix("team-")), // team-a-x, too
		tenant("b", owning("b-old")), tenant("ending", deleted), namespace("taken-dev"), namespace("marked-dev", ownedBy(tenant("marked"))),
		namespace("marked-prod", ownedBy(tenant("b"))), namespace("team-a-x"), namespace("team-dev"),
		namespace("kept-dev", ownedBy(tenant("kept"))), namespace("kept-prod"),
	}
	var got strings.Builder
	for _, tc := range []struct {
		name        string
		old, tenant *v1beta1.Tenant
		fails       string // the read that does
		options     string // of the request
	}{
		{name: "create: free names", tenant: tenant("c", naming("dev", "prod"))},
		{name: "create: a name that two list", tenant: tenant("a", names, naming("a-x"))},
		{name: "create: a name that one holds still", tenant: tenant("c", naming("old"), prefix("b-"))},
		{name: "create: a name of one being deleted", tenant: tenant("c", prefix("ending-"))},
		{name: "create: its own name", tenant: tenant("b")},
		{name: "create: the operator's own", tenant: tenant("c", naming("system"), prefix("leasehold-"))},
		{name: "create: every mistake at once", tenant: tenant("a", names, naming("dev", "a-x", "Bad", "c"))},
		{name: "create: a namespace that exists", tenant: tenant("taken", naming("dev", "prod"))},
		{name: "create: a namespace that bears its mark, and one that bears another's",
			tenant: tenant("marked", naming("dev", "prod"))},
		{name: "create: Tenants cannot be listed", tenant: tenant("c"), fails: "list"},
		{name: "create: namespaces cannot be read", tenant: tenant("c"), fails: "get"},
		{name: "update: nothing", old: tenant("a"), tenant: tenant("a")},
		{name: "update: nothing, Tenants cannot be listed", old: tenant("a"), tenant: tenant("a"), fails: "list"},
		{name: "update: a name more", old: tenant("taken", naming("x")), tenant: tenant("taken", naming("x", "dev"))},
		{name: "update: two names less", old: tenant("a", naming("x", "dev", "y")), tenant: tenant("a")},
		{name: "update: a name less, Retain", old: tenant("a", naming("x", "dev")), tenant: tenant("a", retaining)},
		{name: "update: a name less and one that is held", old: tenant("a", names, naming("x", "dev")),
			tenant: tenant("a", names, naming("a-x", "dev"))},
		{name: "update: an old mistake and no new one", old: tenant("a", naming("Bad")),
			tenant: tenant("a", naming("Bad"), retaining)},
		{name: "update: an old mistake and a new name", old: tenant("a", naming("Bad")),
			tenant: tenant("a", naming("Bad", "dev"))},
		{name: "update: of one being deleted", old: tenant("a", naming("x")), tenant: tenant("a", deleted, naming("Bad"))},
		{name: "delete: Delete", tenant: nil, old: tenant("a", owning("a-prod", "a-dev"), conflicting)},
		{name: "delete: Retain", tenant: nil, old: tenant("a", retaining, owning("a-dev"))},
		{name: "delete: orphans", tenant: nil, old: tenant("a", deleted, orphaning, owning("a-dev"))},
		{name: "delete: orphans, before the finalizer is set", old: tenant("a", owning("a-dev")),
			options: `{"propagationPolicy":"Orphan"}`},
		{name: "delete: orphans, in the deprecated form", old: tenant("a", owning("a-dev")), options: `{"orphanDependents":true}`},
		{name: "delete: in the foreground", old: tenant("a", owning("a-dev")), options: `{"propagationPolicy":"Foreground"}`},
		{name: "delete: in the foreground, paused", old: tenant("kept", pausing(""), owning("kept-prod", "kept-dev")),
			options: `{"propagationPolicy":"Foreground"}`},
		{name: "delete: in the foreground, Retain, with an owner reference left",
			old: tenant("kept", retaining, owning("kept-dev")), options: `{"propagationPolicy":"Foreground"}`},
		{name: "delete: in the foreground, paused, before the UID is known and after a first deletion",
			old:     tenant("kept", deleted, pausing("true"), listing("kept-dev", v1beta1.ReasonPending)),
			options: `{"propagationPolicy":"Foreground"}`},
		{name: "delete: in the foreground, Retain, protected", old: tenant("kept", retaining, naming("prod"), owning("kept-prod")),
			options: `{"propagationPolicy":"Foreground"}`},
		{name: "delete: in the background, paused", old: tenant("kept", pausing(""), owning("kept-dev")),
			options: `{"propagationPolicy":"Background"}`},
		{name: "delete: in the foreground, namespaces cannot be read", old: tenant("kept", retaining, owning("kept-dev")),
			options: `{"propagationPolicy":"Foreground"}`, fails: "get"},
		{name: "create: more than the schema permits", tenant: excessive()},
		{name: "update: more than the schema permits, before", old: excessive(), tenant: tenant("a")},
		{name: "update: more than the schema permits", old: tenant("a"), tenant: excessive()},
		{name: "delete: more than the schema permits", old: excessive()},
		{name: "delete: of one being deleted", tenant: nil, old: tenant("a", deleted, owning("a-dev"))},
	} {
		w := &Webhook{Options: flags,
			Reader: interceptor.NewClient(store(t, objects...), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if tc.fails == "list" {
						return boom
					}
					err := c.List(ctx, list, opts...)
					slices.Reverse(list.(*v1beta1.TenantList).Items) // a cache has no order
					return err
				},
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
					opts ...client.GetOption) error {
					if tc.fails == "get" {
						return boom
					}
					return c.Get(ctx, key, o, opts...)
				},
			})}
		ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Options: runtime.RawExtension{Raw: []byte(tc.options)}}})
		var warnings admission.Warnings
		var err error
		switch {
		case tc.old == nil:
			warnings, err = w.ValidateCreate(ctx, tc.tenant)
		case tc.tenant == nil:
			warnings, err = w.ValidateDelete(ctx, tc.old)
		default:
			warnings, err = w.ValidateUpdate(ctx, tc.old, tc.tenant)
		}
		// The names of other Tenants may be no business of the user, and a deletion affects only what is owned.
		if response := fmt.Sprint(warnings, err); strings.Contains(response, "zeta") ||
			tc.tenant == nil && strings.Contains(response, "a-x") {
			t.Errorf("%s: the response is %s", tc.name, response)
		}
		if tc.old != nil && tc.tenant != nil && err != nil &&
			sets.New(namespaceNames(tc.old)...).HasAll(namespaceNames(tc.tenant)...) {
			t.Errorf("%s: an update that adds no name is refused: %v", tc.name, err)
		}
		fmt.Fprintf(&got, "== %s\n", tc.name)
		for _, warning := range warnings {
			fmt.Fprintf(&got, "warning: %s\n", warning)
		}
		fmt.Fprintf(&got, "error: %v\n\n", err)
		if tc.fails != "" && err != nil && !errors.Is(err, boom) {
			t.Errorf("%s: got %v, want the cause", tc.name, err)
		}
	}
	golden.Assert(t, got.String(), "admission.txt")
}

// A namespace that is being deleted already does not prevent a deletion in the foreground.
func TestTerminatingNamespaceIsNotProtected(t *testing.T) {
	x := tenant("kept", pausing("true"), owning("kept-dev"))
	ending := namespace("kept-dev", ownedBy(x), terminating)
	heldBack(ending)
	ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Options: runtime.RawExtension{Raw: []byte(`{"propagationPolicy":"Foreground"}`)}}})
	if _, err := (&Webhook{Options: flags, Reader: store(t, ending)}).ValidateDelete(ctx, x); err != nil {
		t.Error(err)
	}
}

// excessive returns a Tenant with one element too many in each list.
func excessive() *v1beta1.Tenant {
	return tenant("a", func(t *v1beta1.Tenant) {
		t.Spec.Namespaces = make([]v1beta1.NamespaceSuffix, v1beta1.MaxNamespaces+1)
		t.Spec.Admins = make([]v1beta1.Subject, v1beta1.MaxAdmins+1)
		t.Status.Namespaces = slices.Repeat(tenant("a", owning("a-dev")).Status.Namespaces, v1beta1.MaxStatusNamespaces+1)
		t.Status.Conditions = make([]metav1.Condition, v1beta1.MaxConditions+1)
	})
}

// Lists that are as long as the schema permits pass.
func TestOversize(t *testing.T) {
	full := excessive()
	full.Spec.Namespaces, full.Spec.Admins = full.Spec.Namespaces[1:], full.Spec.Admins[1:]
	full.Status.Namespaces, full.Status.Conditions = full.Status.Namespaces[1:], full.Status.Conditions[1:]
	if errs := oversize(t.Context(), full); len(errs) > 0 {
		t.Error(errs)
	}
	// An update may not make a large Tenant larger, and may leave it as it is. A creation leaves room for the status.
	for _, tc := range []struct{ old, size, errors int }{{0, 384 << 10, 0}, {0, 384<<10 + 1, 1}, {1, 448 << 10, 0},
		{1, 448<<10 + 1, 1}, {500 << 10, 500 << 10, 0}, {500 << 10, 500<<10 + 1, 1}} {
		ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Object:    runtime.RawExtension{Raw: make([]byte, tc.size)},
			OldObject: runtime.RawExtension{Raw: make([]byte, tc.old)}}})
		if errs := oversize(ctx, tenant("a")); len(errs) != tc.errors {
			t.Errorf("%+v: %v", tc, errs)
		}
	}
}

// A client that has left costs no reads.
func TestClientThatLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := &Webhook{Options: flags} // a read would panic
	if _, err := w.ValidateCreate(ctx, tenant("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that the client has left", err)
	}
}

func TestDefaultSetsThePrefixFromTheName(t *testing.T) {
	for reason, tc := range map[string]struct {
		tenant *v1beta1.Tenant
		want   string
	}{
		"no prefix":              {tenant("a", prefix("")), "a-"},
		"a prefix of its own":    {tenant("a", prefix("team-")), "team-"},
		"a name yet to be given": {&v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, ""},
	} {
		if err := (&Webhook{}).Default(t.Context(), tc.tenant); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
		if got := tc.tenant.Spec.NamespacePrefix; got != tc.want {
			t.Errorf("%s: prefix %q, want %q", reason, got, tc.want)
		}
	}
	if (&Webhook{}).Default(t.Context(), excessive()) == nil {
		t.Error("a Tenant with more than the schema permits gets a patch for each element")
	}
}
