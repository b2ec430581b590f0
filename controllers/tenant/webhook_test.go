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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	}
	var got strings.Builder
	for _, tc := range []struct {
		name        string
		old, tenant *v1beta1.Tenant
		fails       string // the read that does
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
		{name: "delete: of one being deleted", tenant: nil, old: tenant("a", deleted, owning("a-dev"))},
	} {
		w := &Webhook{OperatorNamespace: "leasehold-system",
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
		var warnings admission.Warnings
		var err error
		switch {
		case tc.old == nil:
			warnings, err = w.ValidateCreate(t.Context(), tc.tenant)
		case tc.tenant == nil:
			warnings, err = w.ValidateDelete(t.Context(), tc.old)
		default:
			warnings, err = w.ValidateUpdate(t.Context(), tc.old, tc.tenant)
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
}
