// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/learn"
	"leasehold.dev/test/harness/report"
)

// tenants drafts a scenario of Tenants that uses the object's name in the recorded runs.
func tenants(t *testing.T) []learn.DraftKind {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "leasehold.dev_tenants.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	d := &apiextensionsv1.CustomResourceDefinition{}
	g.Expect(yaml.Unmarshal(text, d)).To(Succeed())
	kinds, err := learn.Kinds([]*apiextensionsv1.CustomResourceDefinition{d}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	kinds[0].Objects[kinds[0].Main].SetName("{acme}")
	return kinds
}

// A subject learned from clean runs finds the same violations in recorded plans of wrong operators
// as the handwritten one.
func TestLearn_FindsWhatTheHandwrittenSubjectFinds(t *testing.T) {
	g := NewWithT(t)
	right, err := report.Load(filepath.Join("testdata", "runs", "held-after-death"))
	g.Expect(err).NotTo(HaveOccurred())
	written := right.Contract.Kinds[0]
	d := &learn.Draft{Kinds: tenants(t), Lease: right.Contract.Lease}
	g.Expect(d.Learn(&d.Kinds[0], right.Contract.Users, right.References...)).To(Succeed())
	learned := d.Kinds[0].Kind
	g.Expect([]string{learned.Finalizer, learned.Ready}).To(Equal([]string{written.Finalizer, written.Ready}))
	resources := func(children []invariant.Child) (all []string) {
		for _, c := range children {
			all = append(all, c.String())
		}
		return all
	}
	g.Expect(resources(learned.Children)).To(ConsistOf(resources(written.Children)))
	right.Contract.Kinds = []invariant.Kind{learned}
	d.Kinds[0].Require(right.Contract, right.References)
	g.Expect(d.Kinds[0].Invariants).To(Equal([]string{"end-state", "single-lifecycle", "convergence", "quiescence", "single-writer", "preconditions", "ownership", "finalizer-order", "truthful-status", "sufficient-rights"}))

	for run, want := range map[string]string{"finalizer-too-early": invariant.FinalizerOrder.Name,
		"half-made": invariant.SingleLifecycle.Name} {
		r, err := report.Load(filepath.Join("testdata", "runs", run))
		g.Expect(err).NotTo(HaveOccurred())
		r.Contract.Kinds = []invariant.Kind{learned}
		verdicts, _ := r.Judge()
		broken := slices.DeleteFunc(verdicts, func(v invariant.Verdict) bool { return found(v) != invariant.Broken })
		g.Expect(broken).To(ContainElement(HaveField("Invariant", want)), run)
	}
}
