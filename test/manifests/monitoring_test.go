// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// alert is a rule of config/prometheus. hack/monitoring tests when it fires.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	return alertsOf(t, foreign(t, render(t, "prometheus"), "PrometheusRule"))
}

func alertsOf(t *testing.T, rule *unstructured.Unstructured) []alert {
	t.Helper()
	type group struct{ Rules []alert }
	var all []alert
	for _, g := range into[[]group](t, rule, "spec", "groups") {
		all = append(all, g.Rules...)
	}
	return all
}

var jobs = regexp.MustCompile(`\bjob="([^"]*)"`)

// The alerts select the job that the ServiceMonitor gives to the metrics Service, even in an overlay with a
// prefix and another namespace.
func TestMonitoringMeetsTheService(t *testing.T) {
	overlay := documentedOverlay(t, "- ../prometheus")
	for name, tc := range map[string]struct {
		operator, monitoring []object
		prefix, namespace    string
	}{
		"default": {render(t, "default"), render(t, "prometheus"), "leasehold-", operatorNamespace},
		"overlay": {overlay, overlay, "ops-leasehold-", "platform-ops"},
	} {
		t.Run(name, func(t *testing.T) {
			service := one[*corev1.Service](t, tc.operator, tc.prefix+"controller-manager-metrics-service")
			monitor, rules := foreign(t, tc.monitoring, "ServiceMonitor"), foreign(t, tc.monitoring, "PrometheusRule")
			// Without a namespaceSelector, a ServiceMonitor selects Services of its own namespace.
			for _, o := range []object{service, monitor, rules} {
				if o.GetNamespace() != tc.namespace {
					t.Errorf("%s is in %q, want %q", o.GetName(), o.GetNamespace(), tc.namespace)
				}
			}
			selector := labels.SelectorFromSet(into[map[string]string](t, monitor, "spec", "selector", "matchLabels"))
			if selector.Empty() || !selector.Matches(labels.Set(service.Labels)) {
				t.Errorf("the monitor selects %s, which the metrics Service is not: %v", selector, service.Labels)
			}
			// With honorLabels a bucket's namespace would replace the replica's. The manager signs its own certificate.
			type endpoint struct {
				Port, Path, Scheme, BearerTokenFile string
				HonorLabels                         bool
				TLSConfig                           struct{ InsecureSkipVerify bool }
			}
			endpoints := into[[]endpoint](t, monitor, "spec", "endpoints")
			scraped := endpoint{service.Spec.Ports[0].Name, "/metrics", "https",
				"/var/run/secrets/kubernetes.io/serviceaccount/token", false, struct{ InsecureSkipVerify bool }{true}}
			if diff := gocmp.Diff([]endpoint{scraped}, endpoints); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
			want := service.Labels[into[string](t, monitor, "spec", "jobLabel")]
			for _, a := range alertsOf(t, rules) {
				selected := jobs.FindAllStringSubmatch(a.Expr, -1)
				for _, job := range selected {
					if job[1] != want {
						t.Errorf("%s selects the job %q; the jobLabel of the ServiceMonitor makes it %q", a.Alert, job[1], want)
					}
				}
				if len(selected) == 0 {
					t.Errorf("%s selects no job: %s", a.Alert, a.Expr)
				}
			}
		})
	}
}

func TestAlertsHaveARemedy(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if a.Alert == "" || seen[a.Alert] {
			t.Errorf("alert %q has no name of its own", a.Alert)
		}
		seen[a.Alert] = true
		if a.Expr == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s needs expr, summary and description", a.Alert)
		}
		if severity := a.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has severity %q, want critical or warning", a.Alert, severity)
		}
	}
	for _, want := range []string{"LeaseholdNoLeader", "LeaseholdPanics", "LeaseholdNotReady"} {
		if !seen[want] {
			t.Errorf("there is no alert %s", want)
		}
	}
}

// Thresholds of alerts equal the limits elsewhere in config/.
func TestThresholdsAreThoseOfTheManifests(t *testing.T) {
	all := webhooks(t, render(t, "default"))
	if len(all) == 0 {
		t.Fatal("there are no webhooks")
	}
	share := capture(t, "main.go", `memoryShare = ([0-9.]+)`)
	limit, err := time.ParseDuration(capture(t, "manager.go", `reconcileTimeout = (\d+) \* time.Second`) + "s")
	if err != nil {
		t.Fatal(err)
	}
	thresholds := map[string][]string{
		"LeaseholdMemory":      {fmt.Sprintf("/ %s)\n  > 0.9", share)},
		"LeaseholdWorkerStuck": {fmt.Sprintf("> %g", 1.2*limit.Seconds())},
	}
	for _, w := range all {
		thresholds["LeaseholdWebhookSlow"] = append(thresholds["LeaseholdWebhookSlow"],
			fmt.Sprintf("> %g", float64(*w.TimeoutSeconds)/2))
	}
	for _, a := range alerts(t) {
		for _, threshold := range thresholds[a.Alert] {
			if !strings.HasSuffix(strings.TrimSpace(a.Expr), threshold) {
				t.Errorf("%s does not end with %q: %s", a.Alert, threshold, a.Expr)
			}
		}
		delete(thresholds, a.Alert)
	}
	if len(thresholds) > 0 {
		t.Errorf("there are no alerts for the thresholds %v", thresholds)
	}
	for _, p := range theDashboard(t).Panels {
		if line := p.Targets; p.Title == "Memory" && !strings.HasSuffix(line[len(line)-1].Expr, ") / "+share) {
			t.Errorf("the line in the panel %s is %q, want a division by %s", p.Title, line[len(line)-1].Expr, share)
		}
	}
}

// capture returns the first group of a pattern in a file of the repository.
func capture(t *testing.T, path, pattern string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(read(t, path))
	if match == nil {
		t.Fatalf("%s has no %s", path, pattern)
	}
	return match[1]
}
