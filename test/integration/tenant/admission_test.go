package tenant_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
)

// spec is a Tenant's spec as a user types it, right or wrong.
type spec = map[string]any

func user(name string) any { return spec{"kind": "User", "name": name} }

func typed(name string, s spec) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": "Tenant",
		"metadata": map[string]any{"name": name}, "spec": s}}
}

func many(n int, f func(int) any) []any {
	var out []any
	for i := range n {
		out = append(out, f(i))
	}
	return out
}

var _ = Describe("Admission of a Tenant", func() {
	good := func(with spec) spec {
		s := spec{"namespaces": []any{"dev"}, "admins": []any{user("ann")}}
		maps.Copy(s, with)
		return s
	}

	DescribeTable("refuses what is wrong and says what to change",
		func(ctx SpecContext, name string, s spec, want string) {
			if name == "" {
				name = unique("bad")
			}
			err := k8s.Create(ctx, typed(name, s))
			Expect(err).To(HaveOccurred())
			Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(BeTrue(),
				"a mistake of the user's must be told as one: %v", err)
			Expect(err.Error()).To(ContainSubstring(want))
			Expect(reading(typed(name, nil))(ctx)).To(expect.BeGone())
		},
		Entry("no spec", "", nil, "spec"),
		Entry("no namespaces", "", spec{"admins": []any{user("ann")}}, "spec.namespaces: Required value"),
		Entry("empty namespaces", "", good(spec{"namespaces": []any{}}), "should have at least 1 items"),
		Entry("65 namespaces", "", good(spec{"namespaces": many(65, func(i int) any { return fmt.Sprintf("n%d", i) })}),
			"must have at most 64 items"),
		Entry("the same name twice", "", good(spec{"namespaces": []any{"dev", "dev"}}), "Duplicate value"),
		Entry("an empty name", "", good(spec{"namespaces": []any{""}}), "spec.namespaces[0]"),
		Entry("upper case", "", good(spec{"namespaces": []any{"Dev"}}), "should match"),
		Entry("unicode", "", good(spec{"namespaces": []any{"dév"}}), "should match"),
		Entry("a look-alike letter", "", good(spec{"namespaces": []any{"dеv"}}), "should match"),
		Entry("a dot", "", good(spec{"namespaces": []any{"a.b"}}), "should match"),
		Entry("a path", "", good(spec{"namespaces": []any{"../x"}}), "should match"),
		Entry("a trailing hyphen", "", good(spec{"namespaces": []any{"dev-"}}), "should match"),
		Entry("a number", "", good(spec{"namespaces": []any{int64(7)}}), "cannot unmarshal number"),
		Entry("namespaces that are no list", "", good(spec{"namespaces": "dev"}), "cannot unmarshal string"),
		Entry("a name of 64 letters", "", good(spec{"namespaces": []any{strings.Repeat("a", 64)}}),
			"may not be more than 63"),
		Entry("prefix and name of 64 letters together", "",
			good(spec{"namespacePrefix": "team-", "namespaces": []any{strings.Repeat("a", 59)}}),
			"together must be at most 63 characters"),
		Entry("a prefix of 53 letters", "", good(spec{"namespacePrefix": strings.Repeat("a", 53)}),
			"may not be more than 52"),
		Entry("a prefix that starts with a hyphen", "", good(spec{"namespacePrefix": "-a"}), "should match"),
		Entry("a huge prefix", "", good(spec{"namespacePrefix": strings.Repeat("a", 100_000)}), "may not be more than 52"),
		Entry("kube- by concatenation", "", good(spec{"namespacePrefix": "kube-", "namespaces": []any{"system"}}),
			"reserved"),
		Entry("kube- across the seam", "", good(spec{"namespacePrefix": "kub", "namespaces": []any{"e-x"}}), "reserved"),
		Entry("openshift-", "", good(spec{"namespacePrefix": "openshift-"}), "reserved"),
		Entry("default", "", good(spec{"namespacePrefix": "def", "namespaces": []any{"ault"}}), "reserved"),
		Entry("the operator's own namespace", "", good(spec{"namespacePrefix": "leasehold-", "namespaces": []any{"system"}}),
			"the operator's own"),
		Entry("no admins", "", spec{"namespaces": []any{"dev"}}, "spec.admins: Required value"),
		Entry("empty admins", "", good(spec{"admins": []any{}}), "should have at least 1 items"),
		Entry("33 admins", "", good(spec{"admins": many(33, func(i int) any { return user(fmt.Sprint(i)) })}),
			"must have at most 32 items"),
		Entry("an admin of no kind", "", good(spec{"admins": []any{spec{"name": "ann"}}}), "kind: Required value"),
		Entry("an admin of a strange kind", "", good(spec{"admins": []any{spec{"kind": "Robot", "name": "ann"}}}),
			"Unsupported value"),
		Entry("an admin without a name", "", good(spec{"admins": []any{spec{"kind": "User", "name": ""}}}), "name"),
		Entry("a group of the system", "", good(spec{"admins": []any{spec{"kind": "Group", "name": "system:masters"}}}),
			"must not start with 'system:'"),
		Entry("everybody", "", good(spec{"admins": []any{spec{"kind": "Group", "name": "system:authenticated"}}}),
			"must not start with 'system:'"),
		Entry("a service account by its user name", "",
			good(spec{"admins": []any{user("system:serviceaccount:kube-system:default")}}), "must not start with 'system:'"),
		Entry("a ServiceAccount without a namespace", "",
			good(spec{"admins": []any{spec{"kind": "ServiceAccount", "name": "x"}}}),
			"namespace must be set for kind ServiceAccount"),
		Entry("a User with a namespace", "", good(spec{"admins": []any{spec{"kind": "User", "name": "x", "namespace": "y"}}}),
			"must not be set for kinds User and Group"),
		Entry("a ServiceAccount with a strange name", "",
			good(spec{"admins": []any{spec{"kind": "ServiceAccount", "name": "A:b", "namespace": "y"}}}),
			"must consist of lower case letters"),
		Entry("a strange policy", "", good(spec{"namespaceDeletionPolicy": "Maybe"}), "Unsupported value"),
		Entry("a name with a dot", "a.b", good(nil), "metadata.name must be"),
		Entry("a name of 51 letters", strings.Repeat("a", 51), good(nil), "metadata.name must be"),
	)

	It("accepts the longest names there may be", func(ctx SpecContext) {
		name := unique("long")
		name += "-" + strings.Repeat("a", 50-len(name)-1)
		t := givenReady(ctx, build(name, suffixes(v1beta1.NamespaceSuffix(strings.Repeat("b", 12)))))
		Expect(namespaceOf(t.Status.Namespaces[0].Name).Name).To(HaveLen(63))
	})

	It("takes all the namespaces one Tenant may have", func(ctx SpecContext) {
		var all []v1beta1.NamespaceSuffix
		for i := range 64 {
			all = append(all, v1beta1.NamespaceSuffix(fmt.Sprintf("n%d", i)))
		}
		t := givenReady(ctx, build(unique("full"), suffixes(all...)))
		Expect(t.Status.Namespaces).To(HaveLen(64))
	})

	DescribeTable("refuses a change of the prefix",
		func(ctx SpecContext, prefix string) {
			t := givenReady(ctx, build(unique("fix"), suffixes("dev")))
			t.Spec.NamespacePrefix = prefix
			err := k8s.Update(ctx, t)
			Expect(err).To(MatchError(ContainSubstring("spec.namespacePrefix field should not be changed")))
		},
		Entry("to another", "other-"),
	)

	It("lets the default prefix be left out again", func(ctx SpecContext) {
		t := givenReady(ctx, build(unique("omit"), suffixes("dev")))
		change(ctx, t, withPrefix(""))
		eventuallyReady(ctx, t)
		By("but not when it had been another")
		other := givenReady(ctx, build(unique("omit"), suffixes("dev"),
			func(x *v1beta1.Tenant) { x.Spec.NamespacePrefix = x.Name + "-own-" }))
		other.Spec.NamespacePrefix = ""
		Expect(k8s.Update(ctx, other)).To(MatchError(ContainSubstring("should not be changed")))
	})

	It("warns of each namespace that an update or a deletion removes", func(ctx SpecContext) {
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
	})

	It("warns of a namespace that exists already", func(ctx SpecContext) {
		c, warnings := suite.WarnedClient()
		name := unique("there")
		stranger(ctx, name+"-dev")
		Eventually(func(g Gomega) { // the webhook looks into a cache, which may be a moment late
			g.Expect(c.Create(ctx, build(name), client.DryRunAll)).To(Succeed())
			g.Expect(warnings.All()).To(ContainElement(ContainSubstring("namespace " + name + "-dev exists")))
		}).WithContext(ctx).Should(Succeed())
	})

	It("refuses a name that another Tenant holds", func(ctx SpecContext) {
		name := unique("held")
		holder := givenReady(ctx, build(name+"-a", suffixes("x")))
		err := k8s.Create(ctx, build(name, withPrefix(name+"-"), suffixes("a-x")))
		Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("namespace %s-a-x is in use by Tenant %s", name,
			holder.Name))))
	})

	It("lets exactly one of two Tenants win that race for a name, 50 times", func(ctx SpecContext) {
		for range 50 {
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
					Expect(err).To(MatchError(ContainSubstring("is in use by Tenant")))
				}
			}
			Expect(admitted).NotTo(BeEmpty(), "one of the two must win")
			Eventually(func(g Gomega) {
				owners := 0
				for _, t := range admitted {
					g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
					g.Expect(t).To(expect.HaveObservedGeneration())
					switch c := readyOf(t); c.Reason {
					case v1beta1.ReasonReconciled:
						owners++
					default:
						g.Expect(c.Reason).To(Equal(v1beta1.ReasonNamespaceConflict))
					}
				}
				g.Expect(owners).To(Equal(1))
			}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
			ns := namespaceOf(base + "-a-x")
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
			for _, t := range admitted {
				if readyOf(t).Reason == v1beta1.ReasonReconciled {
					Expect(ns).To(expect.BeControlledBy(t))
				}
			}
			for _, t := range admitted {
				Expect(k8s.Delete(ctx, t)).To(Succeed())
			}
		}
	})
})

func readyOf(t *v1beta1.Tenant) metav1.Condition {
	for _, c := range t.Status.Conditions {
		if c.Type == v1beta1.ConditionReady {
			return c
		}
	}
	return metav1.Condition{}
}
