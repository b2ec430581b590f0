// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"leasehold.dev/api/v1beta1"
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
