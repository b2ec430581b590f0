package apply

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// sent is what reached the API server. What the server makes of it is pinned by
// an integration spec: "Server-side apply".
type sent struct {
	ResourceVersion string
	UID             types.UID
	Manager         string
	Force           bool
}

func recording(t *testing.T, into *sent) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			config := o.(*corev1ac.NamespaceApplyConfiguration)
			options := (&client.ApplyOptions{}).ApplyOptions(opts)
			*into = sent{ResourceVersion: *config.ResourceVersion, Manager: options.FieldManager, Force: *options.Force}
			if config.UID != nil {
				into.UID = *config.UID
			}
			return nil
		},
	}).Build()
}

func TestWritesCarryTheirPreconditions(t *testing.T) {
	var got sent
	c := recording(t, &got)
	if err := Create(t.Context(), c, corev1ac.Namespace("a")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent{ResourceVersion: "1", Manager: "leasehold", Force: true}, got); diff != "" {
		t.Errorf("create (-want +got):\n%s", diff)
	}
	live := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"}}
	if err := Update(t.Context(), c, live, corev1ac.Namespace("a")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent{ResourceVersion: "7", UID: "u", Manager: "leasehold", Force: true}, got); diff != "" {
		t.Errorf("update (-want +got):\n%s", diff)
	}
}

func TestDeleteIsOfThisObjectOnly(t *testing.T) {
	resource := schema.GroupResource{Resource: "namespaces"}
	boom := errors.New("boom")
	otherObject := errors.New("Precondition failed: UID in precondition: u, UID in object meta: v")
	changed := apierrors.NewConflict(resource, "a", errors.New("the object has been modified; please apply your changes to the latest version"))
	for reason, tc := range map[string]struct {
		answer, want error
	}{
		"deleted":                            {nil, nil},
		"gone already":                       {apierrors.NewNotFound(resource, "a"), nil},
		"made anew under the same name":      {apierrors.NewConflict(resource, "a", otherObject), nil},
		"another conflict":                   {changed, changed},
		"refused":                            {boom, boom},
		"forbidden is not taken for success": {apierrors.NewForbidden(resource, "a", boom), apierrors.NewForbidden(resource, "a", boom)},
	} {
		var uid types.UID
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
				uid = *(&client.DeleteOptions{}).ApplyOptions(opts).Preconditions.UID
				return tc.answer
			},
		}).Build()
		err := Delete(t.Context(), c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}})
		if (err == nil) != (tc.want == nil) || (err != nil && err.Error() != tc.want.Error()) {
			t.Errorf("%s: got %v, want %v", reason, err, tc.want)
		}
		if uid != "u" {
			t.Errorf("%s: the delete was for UID %q, want the object's own", reason, uid)
		}
	}
}

func TestDeleteUnchangedIsOfThisVersionOnly(t *testing.T) {
	var got metav1.Preconditions
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, "a", errors.New("Precondition failed: ResourceVersion in precondition: 7"))
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
			got = *(&client.DeleteOptions{}).ApplyOptions(opts).Preconditions
			return conflict
		},
	}).Build()
	err := DeleteUnchanged(t.Context(), c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"}})
	if !apierrors.IsConflict(err) || got.UID == nil || *got.UID != "u" || got.ResourceVersion == nil || *got.ResourceVersion != "7" {
		t.Errorf("got %v under the preconditions %+v, want a Conflict under UID and version", err, got)
	}
}

func TestPatchCarriesTheVersionThatWasJudged(t *testing.T) {
	base := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", Labels: map[string]string{"l": "x"}}}
	changed := base.DeepCopy()
	changed.Labels = nil
	var body string
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption) error {
			data, err := p.Data(o)
			body = string(data)
			return err
		},
	}).Build()
	if err := Patch(t.Context(), c, changed, base); err != nil {
		t.Fatal(err)
	}
	if want := `{"metadata":{"labels":null,"resourceVersion":"7"}}`; body != want {
		t.Errorf("sent %s, want %s", body, want)
	}
}
