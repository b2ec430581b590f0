// SPDX-License-Identifier: Apache-2.0

// Package prove tests the subject, the scenarios and the recorded runs. It has only tests.
package prove

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/subject"
)

// leasehold loads the file of `make prove`, with a program that is never run.
func leasehold(t *testing.T) *subject.Suite {
	t.Helper()
	g := NewWithT(t)
	program, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	s, err := subject.Load(t.Context(), "subject.yaml", program)
	g.Expect(err).NotTo(HaveOccurred())
	return s
}

// The file repeats constants of the API as text, and leaves the rest to the manifests.
func TestSubject_IsLeasehold(t *testing.T) {
	g := NewWithT(t)
	s := leasehold(t)
	p := s.Contract
	g.Expect(p.Users).To(Equal([]string{"system:serviceaccount:leasehold-system:leasehold-controller-manager"}))
	g.Expect(p.Lease).To(Equal(history.Key{Resource: history.Leases, Namespace: "leasehold-system",
		Name: "manager.leasehold.dev"}))
	g.Expect(s.Plane.AuditGroups).To(ContainElement(v1beta1.GroupVersion.Group))
	g.Expect(s.Plane.Definitions).To(HaveLen(3))
	tenants := p.Kinds[0]
	g.Expect(tenants.Resource).To(Equal(history.Resource{Group: v1beta1.GroupVersion.Group, Resource: "tenants"}))
	g.Expect(tenants.Finalizer).To(Equal(v1beta1.TenantFinalizer))
	g.Expect(tenants.Kept).To(Equal(&invariant.Field{Path: "spec.namespaceDeletionPolicy",
		Is: string(v1beta1.NamespaceRetain)}))
	for _, c := range tenants.Children {
		g.Expect(c.Annotation).To(Equal(v1beta1.AnnotationTenantUID), c.String())
	}
	for _, k := range p.Kinds {
		g.Expect(k.Ready).To(Equal(v1beta1.ConditionReady), k.String())
	}
}

// The API server must keep every field that a scenario applies. Each scenario must observe the
// operator long enough for its invariants.
func TestSubject_ScenariosUseItsKinds(t *testing.T) {
	g := NewWithT(t)
	s := leasehold(t)
	kinds := map[any]func() any{
		"Tenant":        func() any { return &v1beta1.Tenant{} },
		"StorageBucket": func() any { return &v1beta1.StorageBucket{} },
		"MarkdownView":  func() any { return &v1beta1.MarkdownView{} },
	}
	for _, of := range s.Scenarios {
		applied := 0
		for _, step := range of.Steps {
			if step.Quiesce != nil {
				g.Expect(step.Quiesce.For.Duration).To(BeNumerically(">=", s.Contract.Limits.Quiet.Duration), step.Name)
			}
			object, known := kinds[step.Apply["kind"]]
			if !known {
				continue
			}
			applied++
			text, err := json.Marshal(step.Apply)
			g.Expect(err).NotTo(HaveOccurred())
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.DisallowUnknownFields()
			g.Expect(decoder.Decode(object())).To(Succeed(), step.Name)
		}
		g.Expect(applied).NotTo(BeZero(), "%s applies no object of the kinds above", of.Name)
	}
}
