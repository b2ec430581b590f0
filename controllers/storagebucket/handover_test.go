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
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// handoverNamespace returns the namespace team, with the annotation that hands over the bucket of a
// former StorageBucket.
func handoverNamespace(former, to string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Annotations: map[string]string{
		v1beta1.AnnotationBucketHandoverPrefix + former: to,
	}}}
}

// handovers returns scenarios of a bucket with the owner tag "former" that b wants.
func handovers() map[string]scenario {
	marked := fakeService{exists: true, ownerTag: "former"}
	manage := func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketManage }
	observe := func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketObserve }
	predecessor := bucket("predecessor", func(b *v1beta1.StorageBucket) { b.Namespace, b.UID = "other", "former" })
	others := handoverNamespace("former", "b")
	others.Name = "other"
	return map[string]scenario{
		"handed over": {with: manage, service: marked,
			objects: []client.Object{handoverNamespace("former", "b")}},
		"handed over, tagging is denied": {with: manage, service: withFailures(marked, requestSetTag,
			"403 AccessDenied"), objects: []client.Object{handoverNamespace("former", "b")}},
		"handed over to another name": {with: manage, service: marked,
			objects: []client.Object{handoverNamespace("former", "c")}},
		"handed over by another namespace": {with: manage, service: marked, objects: []client.Object{others}},
		"another bucket is handed over": {with: manage, service: marked,
			objects: []client.Object{handoverNamespace("else", "b")}},
		"handed over while its owner exists": {with: manage, service: marked,
			objects: []client.Object{handoverNamespace("former", "b"), predecessor}},
		"handed over without an owner tag": {with: manage, service: fakeService{exists: true, otherTag: true},
			objects: []client.Object{handoverNamespace("former", "b")}},
		"handed over, only observed": {with: observe, service: marked,
			objects: []client.Object{handoverNamespace("former", "b")}},
		"an owner tag that is no annotation name": {with: manage, service: fakeService{exists: true, ownerTag: "one two"}},
		"handed over, with unreadable tags": {with: manage, service: withFailures(marked, requestTags, "403 AccessDenied"),
			objects: []client.Object{handoverNamespace("former", "b")}},
	}
}

func withFailures(s fakeService, answers ...string) fakeService {
	s.answers = failures(answers...)
	return s
}

// A bucket is handed over only by an annotation of the StorageBucket's own Namespace that names
// both, and only if the StorageBucket of the owner tag does not exist.
func TestHandoverNeedsAnnotation(t *testing.T) {
	type result struct{ Ready, Owner string }
	conflict := result{"False BucketConflict", "former"}
	wants := map[string]result{
		"handed over":                             {"True ProbeSucceeded", "uid-b"},
		"handed over, tagging is denied":          {"False AccessDenied", "former"},
		"handed over to another name":             conflict,
		"handed over by another namespace":        conflict,
		"another bucket is handed over":           conflict,
		"handed over while its owner exists":      conflict,
		"handed over without an owner tag":        {"False BucketConflict", ""},
		"handed over, only observed":              {"True ProbeSucceeded", "former"},
		"an owner tag that is no annotation name": {"False BucketConflict", "one two"},
		"handed over, with unreadable tags":       {"False AccessDenied", "former"},
	}
	for name, s := range handovers() {
		t.Run(name, func(t *testing.T) {
			bucket := s.service
			w := newManagedFixture(t, "", bucket.ServeHTTP, func(context.Context, client.Client) {})
			for _, o := range s.objects {
				if err := w.stored.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			editStored(t, s.with)(t.Context(), w.stored)
			_, b := w.reconcile(t)
			ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
			if diff := cmp.Diff(wants[name], result{string(ready.Status) + " " + ready.Reason, bucket.ownerTag}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if strings.Contains(ready.Message, "one two") {
				t.Errorf("the message repeats what anyone can write into a tag: %s", ready.Message)
			}
		})
	}
}

// An error in reading the Namespace or the list is neither a permission nor a conflict.
func TestHandover_read_errors(t *testing.T) {
	down := errors.New("down")
	for name, funcs := range map[string]interceptor.Funcs{
		"Namespace": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
			opts ...client.GetOption) error {
			if _, is := into.(*corev1.Namespace); is {
				return down
			}
			return c.Get(ctx, key, into, opts...)
		}},
		"StorageBuckets": {List: func(context.Context, client.WithWatch, client.ObjectList,
			...client.ListOption) error {
			return down
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := fakeService{exists: true, ownerTag: "former"}
			w := newManagedFixture(t, "", bucket.ServeHTTP, func(context.Context, client.Client) {})
			if err := w.stored.Create(t.Context(), handoverNamespace("former", "b")); err != nil {
				t.Fatal(err)
			}
			failing := interceptor.NewClient(w.stored.(client.WithWatch), funcs)
			w.Client, w.Live = failing, failing
			_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "b"}})
			if b := w.read(t); !errors.Is(err, down) || bucket.ownerTag != "former" || len(b.Status.Conditions) > 0 {
				t.Errorf("error %v, owner tag %q, status %+v, want the error and no change", err, bucket.ownerTag, b.Status)
			}
		})
	}
}

// The intent must be stored before the owner tag changes. A StorageBucket without it would not
// remove its bucket.
func TestHandoverRecordsIntentFirst(t *testing.T) {
	var requests []string
	var declared v1beta1.BucketProvisioning
	bucket := fakeService{exists: true, ownerTag: "former"}
	var w *fixture
	w = newManagedFixture(t, "", func(answer http.ResponseWriter, r *http.Request) {
		requests = append(requests, nameOf(r))
		if nameOf(r) == requestSetTag {
			declared = w.read(t).Status.Provisioning
		}
		bucket.ServeHTTP(answer, r)
	}, func(context.Context, client.Client) {})
	if err := w.stored.Create(t.Context(), handoverNamespace("former", "b")); err != nil {
		t.Fatal(err)
	}
	w.reconcile(t)
	want := creationResult{Ready: "True ProbeSucceeded", Provisioning: v1beta1.BucketCreated,
		Events: []string{"Normal BucketHandedOver", "Normal BucketHealthy"}}
	if diff := cmp.Diff(want, w.creation(t)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !slices.Equal(requests, []string{requestHead, requestTags, requestTags, requestSetTag}) ||
		declared != v1beta1.BucketIntended {
		t.Errorf("requests %q, provisioning %q when the tag was set", requests, declared)
	}
}

// A terminating namespace hands nothing over: the bucket that it takes would be removed with it.
func TestTerminatingNamespaceHandsNothingOver(t *testing.T) {
	for name, want := range map[string]handover{"active": handoverGiven, "terminating": handoverNone} {
		t.Run(name, func(t *testing.T) {
			w := newManagedFixture(t, "", nil, func(context.Context, client.Client) {})
			ns := handoverNamespace("former", "b")
			if name == "terminating" {
				ns.DeletionTimestamp, ns.Finalizers = new(metav1.NewTime(epoch)), []string{"example.com/f"}
			}
			w.Live = fake.NewClientBuilder().WithObjects(ns).Build()
			if got, err := w.handover(t.Context(), w.read(t), "former"); got != want || err != nil {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}
