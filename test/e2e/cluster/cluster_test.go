// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold.dev/test/e2e/cluster"
)

// fakeKind replaces kind: it lists the clusters in names, creates none, and records its calls.
func fakeKind(t *testing.T, names string) (command string, calls func() string) {
	t.Helper()
	dir := t.TempDir()
	command, log := filepath.Join(dir, "kind"), filepath.Join(dir, "calls")
	script := fmt.Sprintf(`#!/bin/sh
echo "$*" >>%q
case "$1 $2" in
"get clusters") printf '%%s\n' %s ;;
"delete cluster") ;;
*) echo "not today" >&2; exit 1 ;;
esac
`, log, names)
	if err := os.WriteFile(command, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return command, func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// After an error Start deletes the cluster only if it began to create it.
func TestStartDeletesOnlyIncompleteClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		reason      string
		there       string
		reuse, keep bool
		message     string
		deletes     bool
	}{
		"Another's": {reason: "of that name there is one already, and it is not ours", there: "taken",
			message: "choose another"},
		"Reused": {reason: "it was there before and stays", there: "taken", reuse: true, message: "reading its kubeconfig"},
		"Broken": {reason: "half a cluster is of no use", there: "other", message: "not today", deletes: true},
		"Kept":   {reason: "it is kept for analysis", there: "other", keep: true, message: "not today"},
	} {
		t.Run(name, func(t *testing.T) {
			kind, calls := fakeKind(t, tc.there)
			_, err := cluster.Start(t.Context(),
				cluster.Options{Name: "taken", Reuse: tc.reuse, Keep: tc.keep, Kind: kind, Dir: t.TempDir()})
			if err == nil || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("Start() = %v, want an error with %q", err, tc.message)
			}
			if got := strings.Contains(calls(), "delete cluster"); got != tc.deletes {
				t.Errorf("%s: deleted: %t, want %t; kind was called by\n%s", tc.reason, got, tc.deletes, calls())
			}
		})
	}
}
