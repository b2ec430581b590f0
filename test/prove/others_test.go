package prove

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/others"
)

func TestOthers_KnownFindingsAreValid(t *testing.T) {
	NewWithT(t).Expect(others.Check("others")).To(Succeed())
}
