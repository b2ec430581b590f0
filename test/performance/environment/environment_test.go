package environment_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/environment"
)

func TestACheckoutThatDoesNotBuildSaysWhy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, err := environment.Build(t.Context(), t.TempDir(), t.TempDir())
	g.Expect(err).To(MatchError(ContainSubstring("go.mod")))
}
