package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

	"leasehold.dev/api/v1beta1"
)

// sent is a request that reached the API server. The integration spec "Server-side apply" tests how
// the server handles it.
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

func TestWritesHavePreconditions(t *testing.T) {
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

func TestPatch_only_base_version(t *testing.T) {
	base := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7",
		Labels: map[string]string{"l": "x"}}}
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

// tenantStore returns a store with a Tenant that has a status. Its response to a failed JSON patch
// is that of the API server, which the integration spec "A status" tests. bodies receives the
// status patches.
func tenantStore(t *testing.T, bodies *[]string) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := &v1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Generation: 1, Labels: map[string]string{"l": "x"}},
		Status:     v1beta1.TenantStatus{ObservedGeneration: 1},
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				opts ...client.SubResourcePatchOption) error {
				data, err := p.Data(o)
				if err != nil {
					t.Fatal(err)
				}
				*bodies = append(*bodies, string(data))
				err = c.SubResource(sub).Patch(ctx, o, p, opts...)
				if err != nil && p.Type() == types.JSONPatchType {
					return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
						err.Error(), 0, false)
				}
				return err
			},
		}).Build()
}

func TestPatchStatus_compares_only_status(t *testing.T) {
	for name, tc := range map[string]struct {
		// meanwhile changes the stored object after base was read.
		meanwhile func(*v1beta1.Tenant)
		conflicts bool
	}{
		"nothing": {func(*v1beta1.Tenant) {}, false},
		"a label": {func(o *v1beta1.Tenant) { o.Labels["l"] = "y" }, false},
		"the spec": {func(o *v1beta1.Tenant) { o.Generation, o.Spec.Namespaces = 2, []v1beta1.NamespaceSuffix{"dev"} },
			false},
		"a finalizer":  {func(o *v1beta1.Tenant) { o.Finalizers = []string{"example.com/theirs"} }, false},
		"the status":   {func(o *v1beta1.Tenant) { o.Status.ObservedGeneration = 2 }, true},
		"other status": {func(o *v1beta1.Tenant) { o.Status.Namespaces = []v1beta1.TenantNamespace{{Name: "a-dev"}} }, true},
		"no status":    {func(o *v1beta1.Tenant) { o.Status = v1beta1.TenantStatus{} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			c := tenantStore(t, &bodies)
			base := read(t, c)
			now := read(t, c)
			tc.meanwhile(now)
			status := now.Status
			if err := c.Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			now.Status = status
			if err := c.Status().Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			changed := base.DeepCopy()
			changed.Status.ObservedGeneration = 7
			err := PatchStatus(t.Context(), c, changed, base)
			if (err != nil) != tc.conflicts || apierrors.IsConflict(err) != tc.conflicts {
				t.Fatalf("got %v, want a conflict: %t", err, tc.conflicts)
			}
			want := now.DeepCopy()
			if !tc.conflicts {
				want.Status.ObservedGeneration = 7
			}
			got := read(t, c)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion"),
				cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if !tc.conflicts && (changed.ResourceVersion != got.ResourceVersion || len(bodies) != 1) {
				t.Errorf("version %s after %v, want what is stored, %s, after one request", changed.ResourceVersion, bodies,
					got.ResourceVersion)
			}
		})
	}
}

func read(t *testing.T, c client.Client) *v1beta1.Tenant {
	t.Helper()
	o := &v1beta1.Tenant{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestPatchStatus_only_this_object(t *testing.T) {
	var bodies []string
	c := tenantStore(t, &bodies)
	base := read(t, c)
	again := read(t, c)
	if err := c.Delete(t.Context(), base.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	again.UID, again.ResourceVersion = "v", ""
	if err := c.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	changed := base.DeepCopy()
	changed.Status.ObservedGeneration = 7
	if err := PatchStatus(t.Context(), c, changed, base); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	if got := read(t, c); got.Status.ObservedGeneration == 7 {
		t.Error("an object that was made anew has the status of the former")
	}
}

// If a newer release has written a field that this release's types do not have, the test of the
// status always fails, and the version of the object decides.
func TestPatchStatus_keeps_unknown_fields(t *testing.T) {
	base := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"}}
	changed := base.DeepCopy()
	changed.Status.ObservedGeneration = 1
	var got []string
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(_ context.Context, _ client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			data, err := p.Data(o)
			got = append(got, sub, string(p.Type()), string(data),
				(&client.SubResourcePatchOptions{}).ApplyOptions(opts).FieldManager)
			if p.Type() == types.JSONPatchType {
				return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
					"testing value /status failed", 0, false)
			}
			return err
		},
	}).Build()
	if err := PatchStatus(t.Context(), c, changed, base); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"status", "application/json-patch+json",
		`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/status","value":null},{"op":"add","path":"/status","value":{"observedGeneration":1}}]`,
		"leasehold",
		"status", "application/merge-patch+json",
		`{"metadata":{"resourceVersion":"7"},"status":{"observedGeneration":1}}`, "leasehold",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestPatchStatus_returns_other_errors(t *testing.T) {
	resource := schema.GroupResource{Resource: "tenants"}
	for _, want := range []error{
		nil, errors.New("boom"), apierrors.NewNotFound(resource, "a"),
		apierrors.NewConflict(resource, "a", errors.New("changed")),
		apierrors.NewForbidden(resource, "a", errors.New("no right")), apierrors.NewInternalError(errors.New("etcd")),
	} {
		tried := 0
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
				...client.SubResourcePatchOption) error {
				tried++
				return want
			},
		}).Build()
		o := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"}}
		if err := PatchStatus(t.Context(), c, o.DeepCopy(), o); !errors.Is(err, want) || tried != 1 {
			t.Errorf("got %v after %d tries, want %v after one", err, tried, want)
		}
	}
}

func TestPatchStatusUnchanged_only_base_version(t *testing.T) {
	var bodies []string
	c := tenantStore(t, &bodies)
	base, now := read(t, c), read(t, c)
	now.Labels["l"] = "y"
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	changed := base.DeepCopy()
	changed.Status.ObservedGeneration = 7
	if err := PatchStatusUnchanged(t.Context(), c, changed, base); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict: a label has changed", err)
	}
	changed = now.DeepCopy()
	changed.Status.ObservedGeneration = 7
	if err := PatchStatusUnchanged(t.Context(), c, changed, now); err != nil || read(t, c).Status.ObservedGeneration != 7 {
		t.Errorf("got %v and %+v, want the status at the version that was judged", err, read(t, c).Status)
	}
}

func TestTooLarge(t *testing.T) {
	answer := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
	}
	for message, want := range map[string]bool{
		"etcdserver: request is too large": true,
		"rpc error: code = ResourceExhausted desc = trying to send message larger than max (2772577 vs. 2097152)": true,
		"etcdserver: request timed out":             false,
		"etcdserver: mvcc: database space exceeded": false,
		"": false,
	} {
		if got := TooLarge(fmt.Errorf("writing status: %w", answer(500, message))); got != want {
			t.Errorf("%q: %t, want %t", message, got, want)
		}
		if TooLarge(answer(403, message)) || TooLarge(errors.New(message)) {
			t.Errorf("%q is no answer of etcd in a denial or without a status", message)
		}
	}
	if TooLarge(nil) {
		t.Error("no error is too large")
	}
}

// Only the references to one owner go, also from an object that has changed since it was read.
func TestRemoveOwner(t *testing.T) {
	reference := func(uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "of-" + string(uid), UID: uid}
	}
	stored := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u",
		OwnerReferences: []metav1.OwnerReference{reference("x"), reference("y"), reference("x")}}}
	for name, tc := range map[string]struct {
		read     *corev1.Namespace
		want     []metav1.OwnerReference
		conflict bool
	}{
		"of an older version": {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"}},
			[]metav1.OwnerReference{reference("y")}, false},
		"of another object": {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "v"}},
			stored.OwnerReferences, true},
		"deleted": {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "u"}}, stored.OwnerReferences, false},
	} {
		c := fake.NewClientBuilder().WithObjects(stored.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
				opts ...client.PatchOption) error {
				var body corev1.Namespace
				data, err := p.Data(o)
				if err == nil {
					err = json.Unmarshal(data, &body)
				}
				if err != nil {
					t.Fatal(err)
				}
				// The API server compares the UID of a patch with the stored one.
				if body.UID != stored.UID {
					return apierrors.NewConflict(corev1.Resource("namespaces"), o.GetName(), errors.New("other UID"))
				}
				return c.Patch(ctx, o, p, opts...)
			},
		}).Build()
		err := RemoveOwner(t.Context(), c, tc.read, "x")
		if apierrors.IsConflict(err) != tc.conflict || err != nil && !tc.conflict {
			t.Errorf("%s: RemoveOwner() = %v, want a Conflict: %t", name, err, tc.conflict)
		}
		var got corev1.Namespace
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got.OwnerReferences); diff != "" {
			t.Errorf("%s: owner references (-want +got):\n%s", name, diff)
		}
	}
}
