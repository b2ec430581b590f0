// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// roleVariable makes the test binary play another program instead of testing.
const roleVariable = "ENV_TEST_ROLE"

// eventually is the timeout for conditions that take well under 5 seconds.
const eventually = 30 * time.Second

// shared is the control plane that most tests use, each with names of its own.
var shared *ControlPlane

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
		return
	}
	os.Exit(testAll(m))
}

func testAll(m *testing.M) int {
	began := time.Now()
	ctx := context.Background() //nolint:forbidigo // no test runs yet, so there is no other context
	cp, err := Start(ctx, Options{AuditGroups: []string{"example.org"}})
	if errors.Is(err, ErrExistingCluster) {
		fmt.Fprintln(os.Stdout, "skipped, because these tests start and change control planes of their own:", err)
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintf(os.Stdout, "control plane started in %.2f s\n", time.Since(began).Seconds())
	shared = cp
	code := m.Run()
	if err := cp.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := os.Stat(cp.Dir()); !os.IsNotExist(err) {
		fmt.Fprintf(os.Stderr, "the control plane left %s behind (%v)\n", cp.Dir(), err)
		return 1
	}
	return code
}

// needsControllers skips a test of what kube-controller-manager does where the assets have none.
func needsControllers(t *testing.T) {
	t.Helper()
	if !shared.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which " + assetsVariable + " does not have; unset it and run `make controlplane`")
	}
}

// unique returns a name that no other test has.
func unique(prefix string) string { return prefix + "-" + string(uuid.NewUUID())[:8] }
