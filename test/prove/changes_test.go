package prove

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/explore"
)

var update = flag.Bool("update", false, "Write the golden files.")

// specs are samples of the kinds in config/crd/bases.
var specs = map[string]string{
	"tenants":        `{"namespaces": ["dev", "prod"], "admins": [{"kind": "User", "name": "admin"}]}`,
	"storagebuckets": `{"bucketName": "{bucket}", "endpoint": "{s3.endpoint}", "credentialsSecretRef": {"name": "keys"}, "probe": {"periodSeconds": 10}}`,
	"markdownviews":  `{"markdowns": {"SUMMARY.md": "- [One](one.md)\n", "one.md": "# One\n"}}`,
}

// The golden files list the changes that exploration makes of our kinds.
func TestExplore_ChangesOfOurKinds(t *testing.T) {
	for kind, sample := range specs {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			body, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "leasehold.dev_"+kind+".yaml"))
			g.Expect(err).NotTo(HaveOccurred())
			var d apiextensionsv1.CustomResourceDefinition
			g.Expect(yaml.UnmarshalStrict(body, &d)).To(Succeed())
			var spec map[string]any
			g.Expect(utiljson.Unmarshal([]byte(sample), &spec)).To(Succeed())
			var b strings.Builder
			for _, c := range explore.Generate(d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], spec) {
				value, err := json.Marshal(c.Value)
				g.Expect(err).NotTo(HaveOccurred())
				// The golden files omit long values.
				text := string(value)
				if len(text) > 80 {
					text = fmt.Sprintf("%s... (%d bytes)", text[:60], len(text))
				}
				valid := "valid  "
				if c.Invalid {
					valid = "invalid"
				}
				fmt.Fprintf(&b, "%s %s %s = %s\n", valid, c.Field, c.ID(), text)
			}
			golden := filepath.Join("testdata", "changes", kind+".txt")
			if *update {
				g.Expect(os.WriteFile(golden, []byte(b.String()), 0o600)).To(Succeed())
			}
			g.Expect(os.ReadFile(golden)).To(BeEquivalentTo(b.String()), "go test -update writes it")
		})
	}
}
