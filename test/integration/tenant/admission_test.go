// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// spec is a Tenant's spec as a user writes it, valid or not.
type spec = map[string]any

func user(name string) any { return spec{"kind": "User", "name": name} }

func typed(name string, s spec) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": "Tenant",
		"metadata": map[string]any{"name": name}, "spec": s}}
}

var _ = Describe("Admission of a Tenant", func() {
	good := func(with spec) spec {
		s := spec{"namespaces": []any{"dev"}, "admins": []any{user("ann")}}
		maps.Copy(s, with)
		return s
	}

	// The golden file of config/ tests the limits of the schema, and that of the webhook its responses.
	DescribeTable("refuses what is wrong with a message that names the change",
		func(ctx SpecContext, s spec, want string) {
			o := typed(unique("bad"), s)
			err := k8s.Create(ctx, o)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "a mistake of the user's: %v", err)
			Expect(err).To(MatchError(ContainSubstring(want)))
			Expect(reading(o)(ctx)).To(expect.BeGone())
		},
		Entry("no namespaces", good(spec{"namespaces": []any{}}), "should have at least 1 items"),
		Entry("the same name twice", good(spec{"namespaces": []any{"dev", "dev"}}), "Duplicate value"),
		Entry("upper case", good(spec{"namespaces": []any{"Dev"}}), "should match"),
		Entry("a look-alike letter", good(spec{"namespaces": []any{"dеv"}}), "should match"),
		Entry("a path", good(spec{"namespaces": []any{"../x"}}), "should match"),
		Entry("prefix and name of 64 letters together",
			good(spec{"namespacePrefix": "team-", "namespaces": []any{strings.Repeat("a", 59)}}),
			"together must be at most 63 characters"),
		Entry("a prefix that starts with a hyphen", good(spec{"namespacePrefix": "-a"}), "should match"),
		Entry("kube- across prefix and name", good(spec{"namespacePrefix": "kub", "namespaces": []any{"e-x"}}), "reserved"),
		Entry("default", good(spec{"namespacePrefix": "def", "namespaces": []any{"ault"}}), "reserved"),
		Entry("the operator's own namespace", good(spec{"namespacePrefix": "leasehold-", "namespaces": []any{"system"}}),
			"the operator runs in this namespace"),
		Entry("an admin without a name", good(spec{"admins": []any{user("")}}), "name"),
		Entry("an admin with a space at the end", good(spec{"admins": []any{user("ann ")}}), "must not start or end with white space"),
		Entry("a group of the system", good(spec{"admins": []any{spec{"kind": "Group", "name": "system:masters"}}}),
			"must not start with 'system:'"),
		Entry("a ServiceAccount without a namespace", good(spec{"admins": []any{spec{"kind": "ServiceAccount", "name": "x"}}}),
			"namespace must be set for kind ServiceAccount"),
		Entry("a User with a namespace", good(spec{"admins": []any{spec{"kind": "User", "name": "x", "namespace": "y"}}}),
			"must not be set for kinds User and Group"),
		Entry("a ServiceAccount with an invalid name",
			good(spec{"admins": []any{spec{"kind": "ServiceAccount", "name": "A:b", "namespace": "y"}}}),
			"must consist of lower case letters"),
	)

	It("accepts the longest names there may be, and no others", func(ctx SpecContext) {
		for _, name := range []string{"a.b", strings.Repeat("a", 51)} {
			Expect(k8s.Create(ctx, typed(name, good(nil)))).To(MatchError(ContainSubstring("metadata.name must be")), name)
		}
		name := unique("long")
		name += "-" + strings.Repeat("a", 50-len(name)-1)
		t := givenReady(ctx, build(name, suffixes(v1beta1.NamespaceSuffix(strings.Repeat("b", 12)))))
		Expect(t.Status.Namespaces[0].Name).To(HaveLen(63))
	})

	It("accepts the largest number of namespaces", func(ctx SpecContext) {
		var all []v1beta1.NamespaceSuffix
		for i := range 64 {
			all = append(all, v1beta1.NamespaceSuffix(fmt.Sprintf("n%d", i)))
		}
		t := given(ctx, build(unique("full"), suffixes(all...)))
		// While all specs run, 64 namespaces take longer than the one or two that other Tenants have.
		Eventually(ctx, fetched(t)).WithTimeout(expect.Long).Should(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonReconciled))
		Expect(t.Status.Namespaces).To(HaveLen(64))
	})

	It("refuses a change of the prefix, and lets the default be left out again", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("fix"), suffixes("dev"),
			func(x *v1beta1.Tenant) { x.Spec.NamespacePrefix = x.Name + "-own-" }))
		for _, prefix := range []string{"other-", ""} {
			t.Spec.NamespacePrefix = prefix
			Expect(k8s.Update(ctx, t)).To(MatchError(ContainSubstring("spec.namespacePrefix is immutable")))
		}
		omitted := givenReady(ctx, build(unique("omit"), suffixes("dev")))
		change(ctx, omitted, withPrefix(""))
		eventuallyReady(ctx, omitted)
	})

	It("warns of each namespace that an update or a deletion removes, and of one that exists already",
		func(ctx SpecContext) {
			c, warnings := suite.WarnedClient()
			t := givenReady(ctx, build(unique("warn"), suffixes("dev", "prod")))
			change(ctx, t, func(*v1beta1.Tenant) {})
			t.Spec.Namespaces = []v1beta1.NamespaceSuffix{"dev"}
			Expect(c.Update(ctx, t, client.DryRunAll)).To(Succeed())
			Expect(warnings.All()).To(ConsistOf(fmt.Sprintf("namespace %s-prod will be deleted with everything in it", t.Name)))
			Eventually(ctx, fetched(t)).Should(HaveField("Status.Namespaces", HaveLen(2)))
			Expect(c.Delete(ctx, t, client.DryRunAll)).To(Succeed())
			Expect(warnings.All()).To(ConsistOf(
				fmt.Sprintf("namespace %s-dev will be deleted with everything in it", t.Name),
				fmt.Sprintf("namespace %s-prod will be deleted with everything in it", t.Name)))
			Expect(c.Delete(ctx, t, client.DryRunAll, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
			Expect(warnings.All()).To(ConsistOf(ContainSubstring(t.Name+"-dev will be kept"), ContainSubstring(t.Name+"-prod will be kept")))

			name := unique("there")
			stranger(ctx, name+"-dev")
			Eventually(func(g Gomega) { // the webhook reads a cache, which may be late
				g.Expect(c.Create(ctx, build(name), client.DryRunAll)).To(Succeed())
				g.Expect(warnings.All()).To(ContainElement(ContainSubstring("namespace " + name + "-dev exists")))
			}).WithContext(ctx).Should(Succeed())
		})

	It("refuses a name that another Tenant holds", func(ctx SpecContext) {
		name := unique("held")
		givenReady(ctx, build(name+"-a", suffixes("x")))
		Eventually(func() error { // the webhook reads a cache, which may be late
			return k8s.Create(ctx, build(name, withPrefix(name+"-"), suffixes("a-x")), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring(fmt.Sprintf(
			"namespace %s-a-x is in use by another Tenant; ", name))))
	})

	It("lets exactly one of two Tenants win that race for a name, 10 times", func(ctx SpecContext) {
		for range 10 {
			base := unique("race")
			pair := []*v1beta1.Tenant{
				build(base, withPrefix(base+"-"), suffixes("a-x")),
				build(base+"-a", withPrefix(base+"-a-"), suffixes("x")),
			}
			errs := make([]error, len(pair))
			var both sync.WaitGroup
			for i, t := range pair {
				both.Go(func() { errs[i] = k8s.Create(ctx, t) })
			}
			both.Wait()

			var admitted []*v1beta1.Tenant
			for i, err := range errs {
				if err == nil {
					admitted = append(admitted, pair[i])
				} else {
					Expect(err).To(MatchError(ContainSubstring("is in use by another Tenant")))
				}
			}
			Expect(admitted).NotTo(BeEmpty(), "one of the two must win")
			Eventually(func(g Gomega) {
				ns, owners := namespaceOf(base+"-a-x"), 0
				g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
				for _, t := range admitted {
					g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
					g.Expect(t).To(expect.HaveObservedGeneration())
					c := meta.FindStatusCondition(t.Status.Conditions, v1beta1.ConditionReady)
					if c.Reason != v1beta1.ReasonReconciled {
						g.Expect(c.Reason).To(Equal(v1beta1.ReasonNamespaceConflict))
						continue
					}
					owners++
					g.Expect(ns).To(expect.BeControlledBy(t))
				}
				g.Expect(owners).To(Equal(1))
			}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
			for _, t := range admitted {
				Expect(k8s.Delete(ctx, t)).To(Succeed())
			}
		}
	})
})
