// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

// envtest locks ports in the user's cache folder, and its error has no path.
func TestExplain_NamesTheCacheFolder(t *testing.T) {
	t.Parallel()
	c := &ControlPlane{dir: t.TempDir()}
	for _, cause := range []error{syscall.EROFS, syscall.EACCES} {
		err := c.explain(fmt.Errorf("starting: %w", cause))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("set XDG_CACHE_HOME")))
	}
	NewWithT(t).Expect(c.explain(syscall.EADDRINUSE)).NotTo(MatchError(ContainSubstring("XDG_CACHE_HOME")))
}
