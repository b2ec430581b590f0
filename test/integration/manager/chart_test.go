// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/integration/internal/operator"
	"leasehold.dev/test/internal/chart"
)

var _ = Describe("The Helm chart", operator.OldestKubernetes, func() {
	// The API server validates each object as on `helm install`, including unknown fields,
	// admission and Pod Security. It has no kinds of cert-manager and of the Prometheus operator.
	It("passes a server-side dry run with each set of values", func(ctx SpecContext) {
		c, err := chart.Open(filepath.Join("..", "..", ".."))
		Expect(err).NotTo(HaveOccurred())
		files, err := c.ValueFiles()
		Expect(err).NotTo(HaveOccurred())
		Expect(len(files)).To(BeNumerically(">=", 10))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: operator.Unique("chart"), Labels: map[string]string{"pod-security.kubernetes.io/warn": "restricted"},
		}}
		Expect(kube.Create(ctx, namespace)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(kube.Delete(ctx, namespace)).To(Succeed()) })
		warned := &operator.Warnings{}
		judge := clientThat(warned)
		for _, file := range files {
			rendered, err := c.Template(ctx, namespace.Name, "--values", file)
			Expect(err).NotTo(HaveOccurred())
			accepted, foreign := 0, map[string]int{}
			for _, o := range objectsOf(rendered) {
				err := dryRun(ctx, judge, o)
				if meta.IsNoMatchError(err) {
					foreign[o.GetKind()]++
					continue
				}
				Expect(err).NotTo(HaveOccurred(), "%s: %s %s", filepath.Base(file), o.GetKind(), o.GetName())
				accepted++
			}
			AddReportEntry(filepath.Base(file), fmt.Sprintf("%d objects accepted, unknown kinds: %v", accepted, foreign))
			Expect(accepted).To(BeNumerically(">=", 20))
			for kind, count := range foreign {
				Expect(kind).To(BeElementOf("Certificate", "Issuer", "ServiceMonitor", "PrometheusRule"))
				Expect(count).To(Equal(1), kind)
			}
		}
		Expect(warned.All()).To(BeEmpty())

		By("rejecting errors that only the API server detects")
		rendered, err := c.Template(ctx, namespace.Name, "--set", "resources.requests.memory=much", "--show-only",
			"templates/deployment.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(dryRun(ctx, judge, objectsOf(rendered)[0])).
			To(MatchError(ContainSubstring("quantities must match the regular expression")))
	})
})

func dryRun(ctx context.Context, judge client.Client, o *unstructured.Unstructured) error {
	return judge.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.DryRunAll, client.ForceOwnership,
		client.FieldOwner("helm"))
}

// clientThat returns an administrator's client. An unknown field is an error.
func clientThat(handler *operator.Warnings) client.Client {
	GinkgoHelper()
	own := rest.CopyConfig(config)
	own.WarningHandlerWithContext = handler
	c, err := client.New(own, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	return client.WithFieldValidation(c, client.FieldValidation(metav1.FieldValidationStrict))
}

func objectsOf(rendered []byte) []*unstructured.Unstructured {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}
