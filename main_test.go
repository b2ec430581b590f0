// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// asManager makes the test binary run as the manager.
const asManager = "MANAGER_TEST_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The process logs as the flags say. It sets a limit for the garbage collector, with a variable of the library that is
// wrong here, because there may be no control group.
func TestProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "--zap-encoder=console", "--kubeconfig=none")
	cmd.Env = []string{asManager + "=1", "POD_NAMESPACE=system", "AUTOMEMLIMIT=wrong"}
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"\tINFO\tmain\tstarting\t{", "no memory limit found",
		"exiting\t{\"error\": \"loading the configuration"} {
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), want) {
			t.Errorf("%v, want exit code 1 and %q in\n%s", err, want, out)
		}
	}
}

// A wrong flag ends the process with the reason, which its Pod shows.
func TestProcessWithAWrongFlag(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "--kube-api-qps=0")
	cmd.Env = []string{asManager + "=1", "POD_NAMESPACE=system"}
	out, err := cmd.CombinedOutput()
	const want = "--kube-api-qps 0 must be positive"
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), want) {
		t.Errorf("%v, want exit code 1 and %q in\n%s", err, want, out)
	}
}

// checked is a manager that records its checks by their names.
type checked struct {
	ctrl.Manager
	live, ready map[string]healthz.Checker
	hooks       bool // the webhooks' server was added
}

func (m *checked) AddHealthzCheck(name string, check healthz.Checker) error {
	m.live[name] = check
	return m.Manager.AddHealthzCheck(name, check)
}

func (m *checked) AddReadyzCheck(name string, check healthz.Checker) error {
	m.ready[name] = check
	return m.Manager.AddReadyzCheck(name, check)
}

// GetWebhookServer adds the server to the manager's runnables.
func (m *checked) GetWebhookServer() webhook.Server {
	m.hooks = true
	return m.Manager.GetWebhookServer()
}

// TestChecks tests a replica that has not started. Without webhooks there is no check of their server.
func TestChecks(t *testing.T) {
	for name, tc := range map[string]struct {
		args, ready []string
		hooks       bool
	}{
		"as it ships":      {nil, []string{"caches", "webhook"}, true},
		"without webhooks": {[]string{"--enable-webhooks=false"}, []string{"caches"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(slices.Concat(shippedArguments(t, "default"), tc.args), inPod)
			if err != nil {
				t.Fatal(err)
			}
			w, mgr, _ := newWatches(t)
			m := &checked{Manager: mgr, live: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{}}
			if err := errors.Join(addWebhooks(m, o, nil), addChecks(m, o)); err != nil {
				t.Fatal(err)
			}
			if m.hooks != tc.hooks {
				t.Errorf("the webhooks' server is added: %t, want %t", m.hooks, tc.hooks)
			}
			request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			if len(m.live) != 1 || m.live["ping"] == nil || m.live["ping"](request) != nil {
				t.Errorf("checks of liveness: %v, want ping alone, which succeeds", m.live)
			}
			if diff := cmp.Diff(tc.ready, slices.Sorted(maps.Keys(m.ready))); diff != "" {
				t.Errorf("checks of readiness (-want +got):\n%s", diff)
			}
			if err := m.ready["caches"](request); err != nil {
				t.Errorf("caches: %v", err)
			}
			if check := m.ready["webhook"]; check != nil && check(request) == nil {
				t.Error("a webhook server that was not started is ready")
			}
			kinds := []string{
				"*v1.ClusterRole", "*v1.ClusterRoleBinding", "*v1.ConfigMap", "*v1.Deployment", "*v1.Namespace", "*v1.RoleBinding",
				"*v1.Service",
				"*v1beta1.MarkdownView", "*v1beta1.StorageBucket", "*v1beta1.Tenant",
			}
			if diff := cmp.Diff(kinds, slices.Sorted(maps.Keys(w.informers))); diff != "" {
				t.Errorf("readiness waits for (-want +got):\n%s", diff)
			}
		})
	}
}

// The garbage collector frees more memory before the alert LeaseholdMemory fires.
func TestMemoryShareIsBelowTheAlert(t *testing.T) {
	rules, err := os.ReadFile("config/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var alert float64
	_, after, _ := strings.Cut(string(rules), "process_resident_memory_bytes{")
	_, after, _ = strings.Cut(after, "> ")
	if _, err := fmt.Sscanf(after, "%g", &alert); err != nil {
		t.Fatalf("reading the threshold of LeaseholdMemory: %v", err)
	}
	if memoryShare >= alert || memoryShare <= 0.5 {
		t.Errorf("memoryShare is %g, want more than 0.5 and less than the alert's %g", memoryShare, alert)
	}
}
