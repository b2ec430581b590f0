package storagebucket_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/integration/internal/operator"
)

// annotate sets an annotation of a Namespace, as an administrator does.
func annotate(ctx context.Context, namespace, key, value string) {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	Expect(k8s.Patch(ctx, ns, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
}

// foreignTags returns tags that S3 permits and that are not ASCII, beside an owner tag.
func foreignTags(owner string) string {
	var text bytes.Buffer
	for key, value := range map[string]string{v1beta1.BucketTagOwner: owner, "Büro Köln": "Straße 部門 🪣",
		strings.Repeat("é", 128): strings.Repeat("ü", 256)} {
		text.WriteString("<Tag><Key>")
		_ = xml.EscapeText(&text, []byte(key))
		text.WriteString("</Key><Value>")
		_ = xml.EscapeText(&text, []byte(value))
		text.WriteString("</Value></Tag>")
	}
	return "<Tagging><TagSet>" + text.String() + "</TagSet></Tagging>"
}

var _ = Describe("Tags of other users beyond ASCII", func() {
	It("neither fail the probes of a managed bucket nor block its removal", func(ctx SpecContext) {
		proxy, name := through(fault.Options{}), operator.Unique("managed")
		b := given(ctx, build(place(ctx), proxy.URL(), name, managed(v1beta1.BucketDelete)))
		eventuallyReady(ctx, b)
		tagged := proxy.Inject(fault.Rule{
			Match: fault.Match{Methods: []string{http.MethodGet}, Path: "/" + name, Query: map[string]string{"tagging": ""}},
			Fault: fault.Answer{Status: http.StatusOK, Body: foreignTags(string(b.UID))},
		})
		Eventually(tagged.Count).WithTimeout(expect.Long).Should(BeNumerically(">=", 2))
		Expect(operator.Fetched(k8s, b)(ctx)).To(
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded))
		Expect(k8s.Delete(ctx, b)).To(Succeed())
		Eventually(ctx, operator.Reading(k8s, b)).WithTimeout(expect.Medium).Should(expect.BeGone())
		Expect(exists(name)).To(BeFalse())
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("An annotation that hands a bucket over", func() {
	It("has an effect at once, however long the period, before and after the conflict is reported", func(ctx SpecContext) {
		namespace := place(ctx)
		const former, other = "11111111-2222-3333-4444-555555555555", "11111111-2222-3333-4444-666666666666"
		after, before := bucketOnServer(ctx), bucketOnServer(ctx)
		tag(ctx, after, map[string]string{v1beta1.BucketTagOwner: former, "team": "a"})
		tag(ctx, before, map[string]string{v1beta1.BucketTagOwner: other, "team": "b"})
		hourly := func(b *v1beta1.StorageBucket) { b.Spec.Probe.PeriodSeconds = 3600 }

		By("annotating after the conflict was reported")
		b := given(ctx, build(namespace, storage.Endpoint(), after, managed(v1beta1.BucketRetain), hourly))
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
		annotate(ctx, namespace, v1beta1.AnnotationBucketHandoverPrefix+former, b.Name)
		eventuallyReady(ctx, b)
		Expect(ownerOf(ctx, after)).To(BeEquivalentTo(b.UID))

		By("annotating before the StorageBucket exists")
		early := build(namespace, storage.Endpoint(), before, managed(v1beta1.BucketRetain), hourly)
		annotate(ctx, namespace, v1beta1.AnnotationBucketHandoverPrefix+other, early.Name)
		given(ctx, early)
		eventuallyReady(ctx, early)
		Expect(ownerOf(ctx, before)).To(BeEquivalentTo(early.UID))
	}, SpecTimeout(2*time.Minute))

	It("is not lost while a probe runs that has read the Namespace before", func(ctx SpecContext) {
		namespace, proxy, name := place(ctx), through(fault.Options{}), bucketOnServer(ctx)
		const former = "11111111-2222-3333-4444-777777777777"
		tag(ctx, name, map[string]string{v1beta1.BucketTagOwner: former})
		b := build(namespace, proxy.URL(), name, managed(v1beta1.BucketRetain), probing(3600, 5, 1))
		gate := fault.NewGate(fault.BeforeForward)
		proxy.Inject(fault.Rule{Match: fault.Match{Methods: []string{http.MethodHead}}, Fault: gate})
		DeferCleanup(gate.Open)
		given(ctx, b)
		held, err := gate.Wait(ctx)
		Expect(err).NotTo(HaveOccurred())
		annotate(ctx, namespace, v1beta1.AnnotationBucketHandoverPrefix+former, "another-name")
		held.Release()
		eventually(ctx, b, metav1.ConditionFalse, v1beta1.ReasonBucketConflict)
		gate.Open()
		By("correcting the name in the annotation")
		annotate(ctx, namespace, v1beta1.AnnotationBucketHandoverPrefix+former, b.Name)
		eventuallyReady(ctx, b)
		Expect(ownerOf(ctx, name)).To(BeEquivalentTo(b.UID))
	}, SpecTimeout(2*time.Minute))
})
