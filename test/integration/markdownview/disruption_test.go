package markdownview_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
)

// These specs take away something that the others rely on, and put it back.
// Serial specs run on the first process, which is the one that has the operator.
var _ = Describe("When something is taken away", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	BeforeEach(settled)

	It("a killed leader's work is taken up by the standby, and nothing is done twice", func(ctx SpecContext) {
		leader := suite.Leader(ctx)
		var views []*v1beta1.MarkdownView
		for range 8 {
			views = append(views, given(ctx, build(unique("fail"))))
		}
		By("killing the leader when the first child is there and the last may not be")
		Eventually(ctx, reading(configMapOf(views[0]))).WithPolling(expect.Poll / 10).Should(Succeed())
		leader.Kill()
		DeferCleanup(suite.StartReplicas)
		for _, v := range views {
			eventuallyReady(ctx, v)
			for _, child := range childrenOf(v) {
				Expect(fetched(child)(ctx)).To(expect.BeControlledBy(v))
			}
			// The request under way at the kill may be recorded with an error though it
			// was carried out. But what exists and was never deleted was created once.
			for _, what := range [][3]string{{"", "configmaps", "markdowns-"}, {"apps", "deployments", "viewer-"},
				{"", "services", "viewer-"}} {
				created, deleted := suite.LifeOf(what[0], what[1], what[2]+v.Name)
				Expect(created).To(BeNumerically("<=", 1))
				Expect(deleted).To(BeZero(), "the operator deletes nothing")
			}
			Expect(eventsAbout(v)(ctx)).NotTo(expect.ContainEvent(expect.Event{Type: "Normal",
				Reason: v1beta1.EventDriftCorrected}))
		}
		Expect(suite.Leader(ctx).Name()).NotTo(Equal(leader.Name()))
	})

	It("its webhooks: the schema refuses what it can, and the operator the rest", func(ctx SpecContext) {
		held := givenReady(ctx, build(unique("held")))
		withoutWebhooks(ctx)
		for _, wrong := range []spec{beside("a/b.md", "x"), good(spec{"replicas": int64(9)}),
			{"markdowns": map[string]any{}}} {
			Expect(k8s.Create(ctx, typed(unique("wrong"), wrong))).To(MatchError(ContainSubstring("is invalid")),
				"the schema's own rules need no operator")
		}

		By("refusing a new view, and saying all that is wrong with it")
		wrong := given(ctx, build(unique("wrong"), showing(files{"a.md": "x"}), image("A:b")))
		Eventually(ctx, fetched(wrong)).WithTimeout(expect.Medium).Should(And(
			expect.HaveObservedGeneration(),
			expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionTrue, v1beta1.ReasonInvalidSpec),
			expect.HaveCondition(v1beta1.ConditionReady, metav1.ConditionFalse, v1beta1.ReasonInvalidSpec),
			expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonInvalidSpec),
			HaveField("Status.Conditions", ContainElement(HaveField("Message", And(
				ContainSubstring("markdowns must have SUMMARY.md."), ContainSubstring("the name of an image must be like")))))))
		for _, child := range childrenOf(wrong) {
			Expect(reading(child)(ctx)).To(expect.BeGone())
		}

		By("leaving a view that has become wrong as it was")
		var before []string
		for _, child := range childrenOf(held) {
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(child), child)).To(Succeed())
			before = append(before, child.GetResourceVersion())
		}
		hash := held.Status.ContentHash
		change(ctx, held, showing(ofSize(v1beta1.MaxMarkdownBytes+1)))
		Eventually(ctx, fetched(held)).WithTimeout(expect.Medium).Should(And(
			expect.HaveCondition(v1beta1.ConditionDegraded, metav1.ConditionTrue, v1beta1.ReasonInvalidSpec),
			expect.HaveCondition(v1beta1.ConditionAvailable, metav1.ConditionTrue), // the page is still served
			HaveField("Status.ContentHash", hash)))
		for i, child := range childrenOf(held) {
			Expect(fetched(child)(ctx)).To(HaveField("GetResourceVersion()", before[i]))
		}

		By("deriving the default that the spec does not contain")
		plain := given(ctx, build(unique("plain")))
		Expect(plain.Spec.ViewerImage).To(BeEmpty())
		eventuallyReady(ctx, plain)
		Expect(fetched(deploymentOf(plain))(ctx)).
			To(HaveField("Spec.Template.Spec.Containers", ConsistOf(HaveField("Image", "leasehold-viewer:dev"))))
		change(ctx, held, showing(files{"SUMMARY.md": "x"}))
		eventuallyReady(ctx, held)
	})

	It("a rule: what was stored meanwhile can still be changed when the rule is back", func(ctx SpecContext) {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "markdownviews.leasehold.dev"}}
		markdowns := func(c *apiextensionsv1.CustomResourceDefinition, f func(*apiextensionsv1.JSONSchemaProps)) {
			schema := c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			property := schema.Properties["markdowns"]
			f(&property)
			schema.Properties["markdowns"] = property
		}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		var rules apiextensionsv1.ValidationRules
		markdowns(crd, func(p *apiextensionsv1.JSONSchemaProps) { rules = p.XValidations })
		Expect(rules).NotTo(BeEmpty())
		restoreRule := func(ctx context.Context) {
			change(ctx, crd, func(c *apiextensionsv1.CustomResourceDefinition) {
				markdowns(c, func(p *apiextensionsv1.JSONSchemaProps) { p.XValidations = rules })
			})
			Eventually(ctx, func(ctx context.Context) error {
				return k8s.Create(ctx, typed(unique("strict"), beside("a/b.md", "x")), client.DryRunAll)
			}).Should(MatchError(ContainSubstring("each name in markdowns must be")))
		}
		restoreWebhooks := withoutWebhooks(ctx)
		change(ctx, crd, func(c *apiextensionsv1.CustomResourceDefinition) {
			markdowns(c, func(p *apiextensionsv1.JSONSchemaProps) { p.XValidations = nil })
		})
		DeferCleanup(restoreRule)
		var old *unstructured.Unstructured
		Eventually(func(g Gomega) {
			old = typed(unique("old"), spec{"markdowns": map[string]any{"a/b.md": "x"}})
			g.Expect(k8s.Create(ctx, old)).To(Succeed())
		}).WithContext(ctx).WithTimeout(expect.Short).Should(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, old))).To(Succeed()) })
		restoreRule(ctx)
		restoreWebhooks(ctx)

		v := build(old.GetName())
		change(ctx, v, func(v *v1beta1.MarkdownView) { v.Labels = map[string]string{"example.com/team": "x"} })
		change(ctx, v, replicas(2))
		eventuallyObserved(ctx, v)
		Expect(v).To(expect.HaveCondition(v1beta1.ConditionStalled, metav1.ConditionTrue, v1beta1.ReasonInvalidSpec))
		v.Spec.Markdowns["a/c.md"] = "y"
		Expect(k8s.Update(ctx, v)).To(MatchError(ContainSubstring("each name in markdowns must be")),
			"what is changed must be right")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(v), v)).To(Succeed())
		change(ctx, v, showing(files{"SUMMARY.md": "x"}))
		eventuallyReady(ctx, v)
	})

	It("the whole operator: nothing unchecked comes in, and what is there can be deleted", func(ctx SpecContext) {
		v := givenReady(ctx, build(unique("dead")))
		suite.StopReplicas(ctx)
		DeferCleanup(suite.StartReplicas)
		Expect(k8s.Create(ctx, build(unique("dead")))).To(MatchError(ContainSubstring("failed calling webhook")))
		_, err := suite.Kubectl(ctx, "scale", "mdv", v.Name, "-n", v.Namespace, "--replicas=6")
		Expect(err).To(HaveOccurred(), "the limits of scaling need no operator")
		Expect(k8s.Delete(ctx, v)).To(Succeed())
		Eventually(ctx, reading(v)).WithTimeout(expect.Medium).Should(expect.BeGone())
		for _, child := range childrenOf(v) {
			Eventually(ctx, reading(child)).WithTimeout(expect.Long).Should(expect.BeGone())
		}
	})

	It("an AdmissionReview of 3 MiB is refused, and costs no memory that is kept", func(ctx SpecContext) {
		replica := suite.Leader(ctx)
		for range 10 {
			Expect(review(ctx, replica, 3<<20)).To(HaveField("Allowed", BeFalse()))
		}
		before := resident(replica)
		for range 60 {
			Expect(review(ctx, replica, 3<<20)).To(And(
				HaveField("Allowed", BeFalse()), HaveField("Result.Code", BeNumerically(">=", 400))))
		}
		Expect(resident(replica)-before).To(BeNumerically("<", 48<<20), "180 MiB were sent")
		By("not reading one of 8 MiB")
		response := send(ctx, replica, 8<<20)
		Expect(response.Body.Close()).To(Succeed())
		Expect(response).To(HaveHTTPStatus(http.StatusRequestEntityTooLarge))
		By("still judging those of a usual size")
		Expect(review(ctx, replica, 1<<10)).To(HaveField("Allowed", BeTrue()))
	})
})

// withoutWebhooks takes the webhook of MarkdownViews away until the end of the
// spec, or until what it returns is called.
func withoutWebhooks(ctx context.Context) (restore func(context.Context)) {
	GinkgoHelper()
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "leasehold-validating-webhook-configuration"}}
	Expect(k8s.Get(ctx, client.ObjectKeyFromObject(validating), validating)).To(Succeed())
	validators := validating.Webhooks
	restore = func(ctx context.Context) {
		change(ctx, validating, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) { c.Webhooks = validators })
		Eventually(ctx, func(ctx context.Context) error {
			return k8s.Create(ctx, build(unique("strict"), showing(files{"a.md": "x"})), client.DryRunAll)
		}).WithTimeout(expect.Medium).Should(MatchError(ContainSubstring("denied the request")))
	}
	DeferCleanup(restore)
	change(ctx, validating, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		c.Webhooks = slices.DeleteFunc(slices.Clone(validators), func(w admissionregistrationv1.ValidatingWebhook) bool {
			return w.Name == "vmarkdownview.leasehold.dev"
		})
		Expect(c.Webhooks).To(HaveLen(len(validators) - 1))
	})
	Eventually(func(g Gomega) {
		unchecked := build(unique("lax"), showing(files{"a.md": "x"}))
		g.Expect(k8s.Create(ctx, unchecked, client.DryRunAll)).To(Succeed())
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	return restore
}

// review sends the replica's validating webhook an AdmissionReview of about size
// bytes, past the API server, and returns the answer.
func review(ctx context.Context, replica *env.Replica, size int) *admissionv1.AdmissionResponse {
	GinkgoHelper()
	response := send(ctx, replica, size)
	defer response.Body.Close()
	var answer admissionv1.AdmissionReview
	Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	Expect(answer.Response).NotTo(BeNil())
	return answer.Response
}

// send sends the review of a view of that size. It sends the body when the webhook begins to read it.
func send(ctx context.Context, replica *env.Replica, size int) *http.Response {
	GinkgoHelper()
	v := build("review", showing(files{"SUMMARY.md": v1beta1.MarkdownText(strings.Repeat("x", size))}))
	object, err := json.Marshal(v)
	Expect(err).NotTo(HaveOccurred())
	sent := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: types.UID(v.Name), Operation: admissionv1.Create},
	}
	sent.Request.Object.Raw = object
	body, err := json.Marshal(sent)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("https://127.0.0.1:%d/validate-leasehold-dev-v1beta1-markdownview", replica.Ports().Webhook),
		bytes.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	// The certificate is for the Service's name; the API server checks that.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
		ExpectContinueTimeout: expect.Medium}
	response, err := (&http.Client{Transport: transport}).Do(request)
	Expect(err).NotTo(HaveOccurred())
	return response
}

// resident is how much memory the replica holds, in bytes.
func resident(replica *env.Replica) int64 {
	GinkgoHelper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", replica.Pid()))
	Expect(err).NotTo(HaveOccurred())
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	Expect(err).NotTo(HaveOccurred())
	return pages * int64(os.Getpagesize())
}
