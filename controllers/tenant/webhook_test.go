package tenant

import (
	"context"
	"errors"
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

// scheme is made once: that takes longer than most tests.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
})

// converters are those that a fake client makes for itself otherwise, each time.
var converters = sync.OnceValue(func() []managedfields.TypeConverter {
	return []managedfields.TypeConverter{applyconfigurations.NewTypeConverter(clientgoscheme.Scheme), managedfields.NewDeducedTypeConverter()}
})

// indexes are added to a store as they are to the cache.
type indexes struct{ of *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexes) IndexField(_ context.Context, o client.Object, field string, keys client.IndexerFunc) error {
	i.of.WithIndex(o, field, keys)
	return nil
}

// fakeBuilder is a store with these objects and the indexes of this package.
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
	holder := tenant("team-a", asking("x"), prefix("team-a-"))
	leavingOne := tenant("b", holding("b-old"))
	ending := tenant("ending", asking("end"), deleted, retaining)
	for reason, tc := range map[string]struct {
		tenant  *v1beta1.Tenant
		err     string
		warning string
	}{
		"free names":                        {tenant: tenant("c")},
		"a name another asks for":           {tenant: tenant("team", asking("a-x"), prefix("team-")), err: "namespace team-a-x is in use by Tenant team-a"},
		"a name another still holds":        {tenant: tenant("d", asking("old"), prefix("b-")), err: "namespace b-old is in use by Tenant b"},
		"a name of one being deleted":       {tenant: tenant("f", asking("end"), prefix("ending-")), err: "namespace ending-end is in use by Tenant ending"},
		"the operator's own":                {tenant: tenant("d", asking("system"), prefix("leasehold-")), err: "the operator's own"},
		"reserved, should the CRD be older": {tenant: tenant("d", asking("system"), prefix("kube-")), err: "reserved"},
		"a namespace that exists":           {tenant: tenant("e", asking("taken")), warning: "namespace e-taken exists and does not belong"},
		"all errors at once": {tenant: tenant("team", asking("a-x", "b"), prefix("team-"), func(x *v1beta1.Tenant) {
			x.Spec.Namespaces = append(x.Spec.Namespaces, "Bad")
		}), err: "in use by Tenant team-a"},
	} {
		w := webhook(t, holder, leavingOne, ending, namespace("e-taken"))
		warnings, err := w.ValidateCreate(t.Context(), tc.tenant)
		switch {
		case tc.err == "" && err != nil:
			t.Errorf("%s: refused: %v", reason, err)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || !apierrors.IsInvalid(err)):
			t.Errorf("%s: error %v, want an Invalid one that says %q", reason, err, tc.err)
		}
		if got := strings.Join(warnings, "\n"); !strings.Contains(got, tc.warning) || (tc.warning == "" && got != "") {
			t.Errorf("%s: warnings %q, want %q", reason, got, tc.warning)
		}
	}
	_, err := webhook(t, holder).ValidateCreate(t.Context(), tenant("team", asking("a-x", "Bad"), prefix("team-")))
	if err == nil || !strings.Contains(err.Error(), "in use by") || !strings.Contains(err.Error(), "team-Bad") {
		t.Errorf("both mistakes must be named at once, got %v", err)
	}
}

func TestValidateUpdate(t *testing.T) {
	old := tenant("a", asking("dev", "prod"))
	for reason, tc := range map[string]struct {
		old, tenant *v1beta1.Tenant
		err         string
		warnings    []string
	}{
		"no change":       {old: old, tenant: old.DeepCopy()},
		"a suffix more":   {old: old, tenant: tenant("a", asking("dev", "prod", "test"))},
		"dropped, Delete": {old: old, tenant: tenant("a", asking("dev")), warnings: []string{"namespace a-prod will be deleted with everything in it"}},
		"dropped, Retain": {old: old, tenant: tenant("a", asking("dev"), retaining), warnings: []string{"namespace a-prod will be kept, without the admins' RoleBinding leasehold:tenant-admin"}},
		"dropped, with a change to Delete": {old: tenant("a", asking("dev", "prod"), retaining), tenant: tenant("a", asking("dev")),
			warnings: []string{"namespace a-prod will be deleted with everything in it"}},
		"a name held by another": {old: tenant("a", prefix("team-")), tenant: tenant("a", asking("dev", "a-x"), prefix("team-")),
			err: "in use by Tenant team-a"},
		"an old sin is not judged again": {old: tenant("a", asking("a-x"), prefix("team-")),
			tenant: tenant("a", asking("a-x"), prefix("team-"), func(t *v1beta1.Tenant) { t.Labels = map[string]string{"x": "y"} })},
		"a Tenant on its way out is let go": {old: old, tenant: tenant("a", deleted, asking("system"), prefix("kube-"))},
	} {
		w := webhook(t, tenant("team-a", asking("x"), prefix("team-a-")))
		warnings, err := w.ValidateUpdate(t.Context(), tc.old, tc.tenant)
		if (tc.err == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: error %v, want %q", reason, err, tc.err)
		}
		if strings.Join(warnings, "|") != strings.Join(tc.warnings, "|") {
			t.Errorf("%s: warnings %q, want %q", reason, warnings, tc.warnings)
		}
	}
}

func TestValidateDeleteWarnsOfEachNamespaceAndRefusesNothing(t *testing.T) {
	held := tenant("a", holding("a-prod", "a-dev"), func(x *v1beta1.Tenant) {
		x.Status.Namespaces = append(x.Status.Namespaces, v1beta1.TenantNamespace{Name: "a-conflict", Reason: v1beta1.ReasonNamespaceConflict})
	})
	warnings, err := webhook(t).ValidateDelete(t.Context(), held)
	want := "namespace a-dev will be deleted with everything in it|namespace a-prod will be deleted with everything in it"
	if err != nil || strings.Join(warnings, "|") != want {
		t.Errorf("got %q, %v; want %q: a namespace that is not ours is not removed", warnings, err, want)
	}
	warnings, err = webhook(t).ValidateDelete(t.Context(), tenant("a", retaining, holding("a-dev")))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "kept") {
		t.Errorf("under Retain: %q, %v", warnings, err)
	}
}

func TestValidateFailsClosedWhenItCannotLook(t *testing.T) {
	boom := errors.New("boom")
	reader := fakeBuilder(t).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return boom },
	}).Build()
	if _, err := (&Webhook{Reader: reader}).ValidateCreate(t.Context(), tenant("a")); !errors.Is(err, boom) {
		t.Errorf("error %v, want the cause", err)
	}
}
