package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/env"
)

// The API server accepts each sample of the page for readers of the tutorials, with all its fields.
func TestTutorialSamples(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "coming-from-the-tutorials.md"))
	g.Expect(err).NotTo(HaveOccurred())
	samples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	bases, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "bases", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	plane, err := env.Start(ctx, env.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(plane.Stop()).To(Succeed()) })
	c, err := client.New(plane.Config(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plane.Apply(ctx, documents(g, bases...)...)).To(Succeed())

	kinds := map[string]bool{}
	for _, sample := range samples {
		o := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(sample[1]), &o.Object)).To(Succeed())
		kinds[o.GetKind()] = true
		g.Eventually(func() error {
			return c.Create(ctx, o.DeepCopy(), client.FieldValidation(metav1.FieldValidationStrict), client.DryRunAll)
		}).WithTimeout(time.Minute).Should(Succeed(), strings.TrimSpace(sample[1]))
	}
	g.Expect(kinds).To(HaveLen(3), "each kind has a sample")
}
