package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestDelete_only_this_object(t *testing.T) {
	resource := schema.GroupResource{Resource: "namespaces"}
	boom := errors.New("boom")
	otherObject := errors.New("Precondition failed: UID in precondition: u, UID in object meta: v")
	changed := apierrors.NewConflict(resource, "a",
		errors.New("the object has been modified; please apply your changes to the latest version"))
	for reason, tc := range map[string]struct {
		answer, want error
	}{
		"deleted":                          {nil, nil},
		"already deleted":                  {apierrors.NewNotFound(resource, "a"), nil},
		"created again with the same name": {apierrors.NewConflict(resource, "a", otherObject), nil},
		"another conflict":                 {changed, changed},
		"refused":                          {boom, boom},
		"forbidden is an error": {apierrors.NewForbidden(resource, "a", boom),
			apierrors.NewForbidden(resource, "a", boom)},
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

func TestDeleteUnchanged_only_this_version(t *testing.T) {
	var got metav1.Preconditions
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, "a",
		errors.New("Precondition failed: ResourceVersion in precondition: 7"))
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
			got = *(&client.DeleteOptions{}).ApplyOptions(opts).Preconditions
			return conflict
		},
	}).Build()
	err := DeleteUnchanged(t.Context(), c,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7"}})
	if !apierrors.IsConflict(err) || got.UID == nil || *got.UID != "u" || got.ResourceVersion == nil ||
		*got.ResourceVersion != "7" {
		t.Errorf("got %v under the preconditions %+v, want a Conflict under UID and version", err, got)
	}
}

// Remove deletes an object with its finalizers. It repeats the deletion only of an object that was
// too large for a deletion timestamp.
func TestRemove(t *testing.T) {
	resource := schema.GroupResource{Resource: "namespaces"}
	large := apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
	conflict := apierrors.NewConflict(resource, "a", errors.New("changed"))
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		finalizers       []string
		deletions, strip []error // the answers in order; the last one repeats
		sent             string
		want             error
	}{
		"plain":                 {nil, []error{nil}, nil, "delete", nil},
		"with a finalizer":      {[]string{"x/y"}, []error{nil}, []error{nil}, "delete patch", nil},
		"gone before the patch": {[]string{"x/y"}, []error{nil}, []error{apierrors.NewNotFound(resource, "a")}, "delete patch", nil},
		"too large":             {[]string{"x/y"}, []error{large, nil}, []error{nil}, "delete patch delete patch", nil},
		"always too large": {[]string{"x/y"}, []error{large}, []error{nil},
			"delete patch delete patch delete patch", large},
		"too large, not shown":   {nil, []error{large}, nil, "delete", large},
		"a Conflict of deletion": {[]string{"x/y"}, []error{conflict}, nil, "delete", conflict},
		"a failed deletion":      {[]string{"x/y"}, []error{boom}, nil, "delete", boom},
		"a failed patch":         {[]string{"x/y"}, []error{nil}, []error{boom}, "delete patch", boom},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			next := func(answers *[]error) error {
				answer := (*answers)[0]
				if len(*answers) > 1 {
					*answers = (*answers)[1:]
				}
				return answer
			}
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					sent = append(sent, "delete")
					return next(&tc.deletions)
				},
				Patch: func(_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption) error {
					data, err := p.Data(o)
					if err != nil || string(data) != `{"metadata":{"finalizers":null,"managedFields":[{}],"uid":"u"}}` {
						t.Errorf("sent %s (%v)", data, err)
					}
					sent = append(sent, "patch")
					return next(&tc.strip)
				},
			}).Build()
			err := Remove(t.Context(), c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u",
				ResourceVersion: "7", Finalizers: tc.finalizers}})
			if got := strings.Join(sent, " "); got != tc.sent || !errors.Is(err, tc.want) {
				t.Errorf("sent %q with the result %v, want %q and %v", got, err, tc.sent, tc.want)
			}
		})
	}
}
