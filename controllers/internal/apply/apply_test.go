// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// answering returns a client whose requests get these answers in order, of which the last one repeats,
// and the requests. How the API server answers is in the integration spec "Server-side apply".
func answering(t *testing.T, answers ...error) (client.Client, *[]string) {
	t.Helper()
	server := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, _ runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if force := (&client.ApplyOptions{}).ApplyOptions(opts).Force; force == nil || !*force {
				t.Error("an apply that other field managers can prevent")
			}
			return nil
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return nil },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return nil
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return nil },
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch,
			...client.SubResourcePatchOption) error {
			return nil
		},
	})
	var sent []string
	r := reconcilertest.Recording{T: t, OnRequest: func(q reconcilertest.Request) error {
		sent = append(sent, q.Name+" "+string(q.Body))
		return answers[min(len(sent), len(answers))-1]
	}}
	return r.Intercept(server, false), &sent
}

// judged is an object at the version that a decision was made on.
func judged(finalizers ...string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7",
		Labels: map[string]string{"l": "x"}, Finalizers: finalizers}}
}

var (
	resource   = schema.GroupResource{Resource: "namespaces"}
	errBoom    = errors.New("boom")
	errDeleted = apierrors.NewNotFound(resource, "a")
	errChanged = apierrors.NewConflict(resource, "a",
		errors.New("the object has been modified; please apply your changes to the latest version"))
	errOtherUID = apierrors.NewConflict(resource, "a", fmt.Errorf("%su, UID in object meta: v", otherUID))
)

func TestWritesHavePreconditions(t *testing.T) {
	const apply = `apply as leasehold Namespace a {"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a",`
	changedLabel, changedStatus := judged(), judged()
	changedLabel.Labels, changedStatus.Status.Phase = nil, "Active"
	for name, tc := range map[string]struct {
		write func(context.Context, client.Client) error
		want  string
	}{
		"Create": {func(ctx context.Context, c client.Client) error { return Create(ctx, c, corev1ac.Namespace("a")) },
			apply + `"resourceVersion":"1"}}`},
		"Update": {func(ctx context.Context, c client.Client) error {
			return Update(ctx, c, judged(), corev1ac.Namespace("a"))
		}, apply + `"uid":"u","resourceVersion":"7"}}`},
		"Overwrite": {func(ctx context.Context, c client.Client) error {
			return Overwrite(ctx, c, judged(), corev1ac.Namespace("a"))
		}, apply + `"uid":"u"}}`},
		"Patch": {func(ctx context.Context, c client.Client) error { return Patch(ctx, c, changedLabel, judged()) },
			`patch as leasehold Namespace a {"metadata":{"labels":null,"resourceVersion":"7"}}`},
		"PatchStatus": {func(ctx context.Context, c client.Client) error {
			return PatchStatus(ctx, c, changedStatus, judged())
		}, `merge-patch+json of status Namespace a {"metadata":{"resourceVersion":"7"},"status":{"phase":"Active"}}`},
		"Delete": {func(ctx context.Context, c client.Client) error { return Delete(ctx, c, judged()) },
			`delete Namespace a {"preconditions":{"uid":"u"}}`},
		"DeleteUnchanged": {func(ctx context.Context, c client.Client) error { return DeleteUnchanged(ctx, c, judged()) },
			`delete Namespace a {"preconditions":{"uid":"u","resourceVersion":"7"}}`},
	} {
		c, sent := answering(t, nil)
		if err := tc.write(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]string{tc.want}, *sent); diff != "" {
			t.Errorf("%s: sent (-want +got):\n%s", name, diff)
		}
	}
}

// A deletion of an object that does not exist any more is a success, also if another has its name. After
// any other Conflict the object may still exist.
func TestAnswersToDeletions(t *testing.T) {
	for _, tc := range []struct{ answer, want error }{
		{nil, nil},
		{errDeleted, nil},
		{errOtherUID, nil},
		{errChanged, errChanged},
		{errBoom, errBoom},
	} {
		c, _ := answering(t, tc.answer)
		for name, err := range map[string]error{"Delete": Delete(t.Context(), c, judged()),
			"DeleteUnchanged": DeleteUnchanged(t.Context(), c, judged())} {
			if !errors.Is(err, tc.want) {
				t.Errorf("%s, answered with %v: %v, want %v", name, tc.answer, err, tc.want)
			}
		}
	}
}

// Remove deletes an object with its finalizers, which go first.
func TestRemove(t *testing.T) {
	const deletion, strip = `delete Namespace a {"preconditions":{"uid":"u"}}`,
		`patch as leasehold Namespace a {"metadata":{"finalizers":null,"managedFields":[{}],"uid":"u"}}`
	held, ending := judged("x/y"), judged("x/y")
	ending.DeletionTimestamp = new(metav1.Now())
	for name, tc := range map[string]struct {
		object  *corev1.Namespace
		answers []error
		sent    []string
		want    error
	}{
		"plain":                  {judged(), []error{nil}, []string{deletion}, nil},
		"with a finalizer":       {held, []error{nil}, []string{strip, deletion}, nil},
		"terminating":            {ending, []error{nil}, []string{strip, deletion}, nil},
		"gone with the patch":    {held, []error{nil, errDeleted}, []string{strip, deletion}, nil},
		"gone before the patch":  {held, []error{errDeleted}, []string{strip, deletion}, nil},
		"a Conflict of deletion": {held, []error{nil, errChanged}, []string{strip, deletion}, errChanged},
		"a failed deletion":      {held, []error{nil, errBoom}, []string{strip, deletion}, errBoom},
		"a failed patch":         {held, []error{errBoom}, []string{strip}, errBoom},
	} {
		c, sent := answering(t, tc.answers...)
		err := Remove(t.Context(), c, tc.object)
		if diff := cmp.Diff(tc.sent, *sent); diff != "" || !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v; sent (-want +got):\n%s", name, err, tc.want, diff)
		}
	}
}
