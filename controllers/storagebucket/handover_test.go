package storagebucket

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// handingOver is the namespace team, which hands the bucket of a former StorageBucket over.
func handingOver(former, to string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Annotations: map[string]string{
		v1beta1.AnnotationBucketHandoverPrefix + former: to,
	}}}
}

// handovers are scenarios of a bucket with the mark "former" that b wants.
func handovers() map[string]scenario {
	marked := service{exists: true, owner: "former"}
	manage := func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketManage }
	observe := func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketObserve }
	predecessor := bucket("predecessor", func(b *v1beta1.StorageBucket) { b.Namespace, b.UID = "other", "former" })
	others := handingOver("former", "b")
	others.Name = "other"
	return map[string]scenario{
		"handed over":                         {with: manage, service: marked, objects: []client.Object{handingOver("former", "b")}},
		"handed over, may not be marked":      {with: manage, service: withAnswers(marked, setsMark, "403 AccessDenied"), objects: []client.Object{handingOver("former", "b")}},
		"handed over to another name":         {with: manage, service: marked, objects: []client.Object{handingOver("former", "c")}},
		"handed over by another namespace":    {with: manage, service: marked, objects: []client.Object{others}},
		"another bucket is handed over":       {with: manage, service: marked, objects: []client.Object{handingOver("else", "b")}},
		"handed over while its owner exists":  {with: manage, service: marked, objects: []client.Object{handingOver("former", "b"), predecessor}},
		"handed over without a mark":          {with: manage, service: service{exists: true, other: true}, objects: []client.Object{handingOver("former", "b")}},
		"handed over, only observed":          {with: observe, service: marked, objects: []client.Object{handingOver("former", "b")}},
		"of a mark that names no annotation":  {with: manage, service: service{exists: true, owner: "one two"}},
		"handed over, of an unreadable owner": {with: manage, service: withAnswers(marked, asksMark, "403 AccessDenied"), objects: []client.Object{handingOver("former", "b")}},
	}
}

func withAnswers(s service, answers ...string) service {
	s.answers = answering(answers...)
	return s
}

// Only an annotation of the StorageBucket's own Namespace that names both hands a bucket over, and
// only where the StorageBucket of the mark is gone.
func TestHandoverTakesOnlyWhatItsNamespaceGives(t *testing.T) {
	type result struct{ Ready, Owner string }
	conflict := result{"False BucketConflict", "former"}
	wants := map[string]result{
		"handed over":                         {"True ProbeSucceeded", "uid-b"},
		"handed over, may not be marked":      {"False AccessDenied", "former"},
		"handed over to another name":         conflict,
		"handed over by another namespace":    conflict,
		"another bucket is handed over":       conflict,
		"handed over while its owner exists":  conflict,
		"handed over without a mark":          {"False BucketConflict", ""},
		"handed over, only observed":          {"True ProbeSucceeded", "former"},
		"of a mark that names no annotation":  {"False BucketConflict", "one two"},
		"handed over, of an unreadable owner": {"False AccessDenied", "former"},
	}
	for name, s := range handovers() {
		t.Run(name, func(t *testing.T) {
			bucket := s.service
			w := managedWorld(t, "", bucket.ServeHTTP, func(context.Context, client.Client) {})
			for _, o := range s.objects {
				if err := w.stored.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			change(t, s.with)(t.Context(), w.stored)
			_, b := w.reconcile(t)
			ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
			if diff := cmp.Diff(wants[name], result{string(ready.Status) + " " + ready.Reason, bucket.owner}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if strings.Contains(ready.Message, "one two") {
				t.Errorf("the message repeats what anyone can write into a tag: %s", ready.Message)
			}
		})
	}
}

// A Namespace or a list that cannot be read is no permission, and no conflict either.
func TestHandoverNeedsTheNamespaceAndTheList(t *testing.T) {
	down := errors.New("down")
	for name, funcs := range map[string]interceptor.Funcs{
		"Namespace": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if _, is := into.(*corev1.Namespace); is {
				return down
			}
			return c.Get(ctx, key, into, opts...)
		}},
		"StorageBuckets": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return down }},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := service{exists: true, owner: "former"}
			w := managedWorld(t, "", bucket.ServeHTTP, func(context.Context, client.Client) {})
			if err := w.stored.Create(t.Context(), handingOver("former", "b")); err != nil {
				t.Fatal(err)
			}
			failing := interceptor.NewClient(w.stored.(client.WithWatch), funcs)
			w.Client, w.Live = failing, failing
			_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "b"}})
			if b := w.read(t); !errors.Is(err, down) || bucket.owner != "former" || len(b.Status.Conditions) > 0 {
				t.Errorf("error %v, mark %q, status %+v, want the error and nothing done", err, bucket.owner, b.Status)
			}
		})
	}
}

// The intent must be stored before the owner tag changes. A StorageBucket without it would
// not remove its bucket.
func TestHandoverIsDeclaredFirst(t *testing.T) {
	var requests []string
	var declared v1beta1.BucketProvisioning
	bucket := service{exists: true, owner: "former"}
	var w *world
	w = managedWorld(t, "", func(answer http.ResponseWriter, r *http.Request) {
		requests = append(requests, nameOf(r))
		if nameOf(r) == setsMark {
			declared = w.read(t).Status.Provisioning
		}
		bucket.ServeHTTP(answer, r)
	}, func(context.Context, client.Client) {})
	if err := w.stored.Create(t.Context(), handingOver("former", "b")); err != nil {
		t.Fatal(err)
	}
	w.reconcile(t)
	want := creation{Ready: "True ProbeSucceeded", Provisioning: v1beta1.BucketCreated, Events: []string{"Normal BucketHandedOver", "Normal BucketHealthy"}}
	if diff := cmp.Diff(want, w.leaves(t)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !slices.Equal(requests, []string{looks, asksMark, asksMark, setsMark}) || declared != v1beta1.BucketIntended {
		t.Errorf("requests %q, provisioning %q when the mark was set", requests, declared)
	}
}
