package tenant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
)

// scheme is built once, since that takes longer than most tests.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
})

// converters are shared, since each fake client would build its own.
var converters = sync.OnceValue(func() []managedfields.TypeConverter {
	return []managedfields.TypeConverter{applyconfigurations.NewTypeConverter(clientgoscheme.Scheme),
		managedfields.NewDeducedTypeConverter()}
})

// indexes adds the cache's field indexes to a fake client.
type indexes struct{ of *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexes) IndexField(_ context.Context, o client.Object, field string, keys client.IndexerFunc) error {
	i.of.WithIndex(o, field, keys)
	return nil
}

// fakeBuilder returns a builder with these objects and the indexes of this package.
func fakeBuilder(t testing.TB, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	builder := fake.NewClientBuilder().WithScheme(scheme()).WithTypeConverters(converters()...).WithObjects(objects...)
	if err := addIndexes(t.Context(), indexes{builder}); err != nil {
		t.Fatal(err)
	}
	return builder
}

func webhook(t testing.TB, objects ...client.Object) *Webhook {
	t.Helper()
	return &Webhook{Reader: fakeBuilder(t, objects...).Build(), OperatorNamespace: "leasehold-system"}
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
		if err := webhook(t).Default(t.Context(), tc.tenant); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
		if got := tc.tenant.Spec.NamespacePrefix; got != tc.want {
			t.Errorf("%s: prefix %q, want %q", reason, got, tc.want)
		}
	}
}

func TestValidateCreate(t *testing.T) {
	holder := tenant("team-a", naming("x"), prefix("team-a-"))
	leavingOne := tenant("b", owning("b-old"))
	ending := tenant("ending", naming("end"), deleted, retaining)
	for reason, tc := range map[string]struct {
		tenant  *v1beta1.Tenant
		err     string
		warning string
	}{
		"free names": {tenant: tenant("c")},
		"a name another asks for": {tenant: tenant("team", naming("a-x"), prefix("team-")),
			err: "namespace team-a-x is in use by Tenant team-a"},
		"a name another still holds": {tenant: tenant("d", naming("old"), prefix("b-")),
			err: "namespace b-old is in use by Tenant b"},
		"a name of one being deleted": {tenant: tenant("f", naming("end"), prefix("ending-")),
			err: "namespace ending-end is in use by Tenant ending"},
		"the operator's own": {tenant: tenant("d", naming("system"), prefix("leasehold-")),
			err: "the operator's own"},
		"reserved, should the CRD be older": {tenant: tenant("d", naming("system"), prefix("kube-")), err: "reserved"},
		"a namespace that exists": {tenant: tenant("e", naming("taken")),
			warning: "namespace e-taken exists and does not belong"},
		"all errors at once": {tenant: tenant("team", naming("a-x", "b"), prefix("team-"), func(x *v1beta1.Tenant) {
			x.Spec.Namespaces = append(x.Spec.Namespaces, "Bad")
		}), err: "in use by Tenant team-a"},
	} {
		w := webhook(t, holder, leavingOne, ending, namespace("e-taken"))
		warnings, err := w.ValidateCreate(t.Context(), tc.tenant)
		switch {
		case tc.err == "" && err != nil:
			t.Errorf("%s: refused: %v", reason, err)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || !apierrors.IsInvalid(err)):
			t.Errorf("%s: error %v, want an Invalid error with %q", reason, err, tc.err)
		}
		if got := strings.Join(warnings, "\n"); !strings.Contains(got, tc.warning) || (tc.warning == "" && got != "") {
			t.Errorf("%s: warnings %q, want %q", reason, got, tc.warning)
		}
	}
	// Several Tenants ask for the name; a cache lists them in no order.
	unordered := webhook(t)
	second := tenant("team-b", naming("a-x"), prefix("team-"))
	unordered.Reader = interceptor.NewClient(fakeBuilder(t, holder, second).Build(),
		interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			slices.Reverse(list.(*v1beta1.TenantList).Items)
			return err
		}})
	_, err := unordered.ValidateCreate(t.Context(), tenant("team", naming("a-x"), prefix("team-")))
	if err == nil || !strings.Contains(err.Error(), "in use by Tenant team-a, team-b") {
		t.Errorf("error %v, want the names in order", err)
	}
	_, err = webhook(t, holder).ValidateCreate(t.Context(), tenant("team", naming("a-x", "Bad"), prefix("team-")))
	if err == nil || !strings.Contains(err.Error(), "in use by") || !strings.Contains(err.Error(), "team-Bad") {
		t.Errorf("error %v, want both mistakes in it", err)
	}
}

func TestValidateUpdate(t *testing.T) {
	old := tenant("a", naming("dev", "prod"))
	for reason, tc := range map[string]struct {
		old, tenant *v1beta1.Tenant
		err         string
		warnings    []string
	}{
		"no change":     {old: old, tenant: old.DeepCopy()},
		"a suffix more": {old: old, tenant: tenant("a", naming("dev", "prod", "test"))},
		"dropped, Delete": {old: old, tenant: tenant("a", naming("dev")),
			warnings: []string{"namespace a-prod will be deleted with everything in it"}},
		"dropped, Retain": {old: old, tenant: tenant("a", naming("dev"), retaining),
			warnings: []string{"namespace a-prod will be kept, without the admins' RoleBinding leasehold:tenant-admin"}},
		"dropped, with a change to Delete": {old: tenant("a", naming("dev", "prod"), retaining),
			tenant:   tenant("a", naming("dev")),
			warnings: []string{"namespace a-prod will be deleted with everything in it"}},
		"a name held by another": {old: tenant("a", prefix("team-")),
			tenant: tenant("a", naming("dev", "a-x"), prefix("team-")),
			err:    "in use by Tenant team-a"},
		"an old sin is not judged again": {old: tenant("a", naming("a-x"), prefix("team-")),
			tenant: tenant("a", naming("a-x"), prefix("team-"),
				func(t *v1beta1.Tenant) { t.Labels = map[string]string{"x": "y"} })},
		"a terminating Tenant is accepted": {old: old, tenant: tenant("a", deleted, naming("system"), prefix("kube-"))},
	} {
		w := webhook(t, tenant("team-a", naming("x"), prefix("team-a-")))
		warnings, err := w.ValidateUpdate(t.Context(), tc.old, tc.tenant)
		if (tc.err == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: error %v, want %q", reason, err, tc.err)
		}
		if strings.Join(warnings, "|") != strings.Join(tc.warnings, "|") {
			t.Errorf("%s: warnings %q, want %q", reason, warnings, tc.warnings)
		}
	}
}

func TestValidateDelete(t *testing.T) {
	held := tenant("a", owning("a-prod", "a-dev"), func(x *v1beta1.Tenant) {
		x.Status.Namespaces = append(x.Status.Namespaces,
			v1beta1.TenantNamespace{Name: "a-conflict", Reason: v1beta1.ReasonNamespaceConflict})
	})
	warnings, err := webhook(t).ValidateDelete(t.Context(), held)
	want := "namespace a-dev will be deleted with everything in it|namespace a-prod will be deleted with everything in it"
	if err != nil || strings.Join(warnings, "|") != want {
		t.Errorf("got %q, %v; want %q: a foreign namespace is not removed", warnings, err, want)
	}
	warnings, err = webhook(t).ValidateDelete(t.Context(), tenant("a", retaining, owning("a-dev")))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "kept") {
		t.Errorf("under Retain: %q, %v", warnings, err)
	}
}

func TestValidateFailsClosedOnReadError(t *testing.T) {
	boom := errors.New("boom")
	reader := fakeBuilder(t).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return boom },
	}).Build()
	if _, err := (&Webhook{Reader: reader}).ValidateCreate(t.Context(), tenant("a")); !errors.Is(err, boom) {
		t.Errorf("error %v, want the cause", err)
	}
}
