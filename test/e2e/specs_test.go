// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/e2e-framework/pkg/features"
)

// The integration specs that docs/testing.md promises for an existing cluster.
func TestSpecsOfTenants(t *testing.T) {
	testenv.Test(t, features.New("integration specs on a cluster with the operator deployed").
		Assess("those of Tenants pass", step(func(ctx context.Context, g *WithT) {
			path := filepath.Join(shared.settings.Artifacts, "specs-of-tenants.log")
			log, err := os.Create(path)
			g.Expect(err).NotTo(HaveOccurred())
			defer log.Close()
			cmd := exec.CommandContext(ctx, filepath.Join("hack", "progress.sh"), "specs of Tenants", cmp.Or(os.Getenv("GO"), "go"),
				"test", "./test/integration/tenant", "-count=1", "-timeout=15m", "-v", "-ginkgo.no-color")
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+shared.cluster.Kubeconfig())
			cmd.Stdout, cmd.Stderr = log, io.MultiWriter(log, progress{shared})
			g.Expect(cmd.Run()).To(Succeed(), "see %s", path)
			output, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(output)).To(MatchRegexp(`Ran [2-9][0-9] of`), "most of them ran")
		})).
		Feature())
}
