// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
)

// `make gate` runs the benchmarks of bench_test.go at each size n and compares them with the base
// of a change. The comparison is by name, so the names must not change.

// atSizes runs a benchmark on views with one up to the maximal number of files.
func atSizes(b *testing.B, run func(*testing.B, *v1beta1.MarkdownView)) {
	for _, n := range []int{2, 16, 128} {
		f := files{"SUMMARY.md": "- [A](a.md)\n"}
		for i := range n - 1 {
			f[fmt.Sprintf("f%05d.md", i)] = v1beta1.MarkdownText(strings.Repeat("x", 1000))
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			run(b, view(showing(f)))
		})
	}
}

// BenchmarkHeap reconciles a view that is requested each time, so the status is written each time.
func BenchmarkHeap(b *testing.B) {
	r := newRecording(b, view())
	n, v := 0, &v1beta1.MarkdownView{}
	reconcilertest.Heap(b, func() {
		err := r.stored.Get(b.Context(), request.NamespacedName, v)
		n++
		v.Annotations = map[string]string{v1beta1.AnnotationRequestedAt: fmt.Sprint(n)}
		err = errors.Join(err, r.stored.Update(b.Context(), v))
		if _, failed := r.Reconcile(b.Context(), request); err != nil || failed != nil {
			b.Fatal(err, failed)
		}
		r.Lines, r.Reported = nil, nil
	})
	err := r.stored.Get(b.Context(), request.NamespacedName, v)
	if err != nil || v.Status.LastHandledReconcileAt != fmt.Sprint(n) {
		b.Errorf("%v, the last of %d requests that was handled is %s", err, n, v.Status.LastHandledReconcileAt)
	}
}

func BenchmarkRender(b *testing.B) {
	atSizes(b, func(b *testing.B, v *v1beta1.MarkdownView) {
		for b.Loop() {
			render(v, contentHash(v.Spec.Markdowns), defaultImage)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	atSizes(b, func(b *testing.B, v *v1beta1.MarkdownView) {
		for b.Loop() {
			validate(v)
			validateTexts(v)
		}
	})
}

// BenchmarkDecide measures a reconcile that changes nothing.
func BenchmarkDecide(b *testing.B) {
	atSizes(b, func(b *testing.B, v *v1beta1.MarkdownView) {
		o := appliedObservation(b, v)
		for b.Loop() {
			decide(o)
		}
	})
}

func BenchmarkSummarize(b *testing.B) {
	o := appliedObservation(b, view())
	o.deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: o.deployment.Generation, Replicas: 2,
		UpdatedReplicas: 2, AvailableReplicas: 2}
	p, res := decide(o), succeeded()
	b.ReportAllocs()
	for b.Loop() {
		after := o.view.DeepCopy()
		after.Status = summarize(o, p, res, epoch)
		transitions(o.view, after, p)
	}
}
