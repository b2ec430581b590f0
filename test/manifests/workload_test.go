// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

const deploymentName = "leasehold-controller-manager"

func deployment(t *testing.T, dir string) *appsv1.Deployment {
	t.Helper()
	return one[*appsv1.Deployment](t, render(t, dir), deploymentName)
}

// manager returns the only container.
func manager(t *testing.T, d *appsv1.Deployment) corev1.Container {
	t.Helper()
	if n := len(d.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("the Pod has %d containers, want 1", n)
	}
	return d.Spec.Template.Spec.Containers[0]
}

// The manager searches the Pods of other replicas for the end of a container of this name.
func TestManagerGetsThePodFields(t *testing.T) {
	for _, dir := range []string{"default", "certmanager"} {
		container := manager(t, deployment(t, dir))
		env := map[string]string{}
		for _, v := range container.Env {
			env[v.Name] = v.Value
			if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
				env[v.Name] = v.ValueFrom.FieldRef.FieldPath
			}
		}
		want := map[string]string{
			"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid",
			"POD_CONTAINER": container.Name,
		}
		if diff := gocmp.Diff(want, env); diff != "" {
			t.Errorf("config/%s: the environment (-want +got):\n%s", dir, diff)
		}
		pod := deployment(t, dir).Spec.Template.Spec
		account := one[*corev1.ServiceAccount](t, render(t, dir), serviceAccount)
		if pod.AutomountServiceAccountToken != nil || account.AutomountServiceAccountToken != nil {
			t.Errorf("config/%s: without a token the manager cannot use the API server", dir)
		}
	}
}

// The namespace enforces `restricted`. The test uses the API server's evaluator.
func TestPodIsAdmittedAsRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	verdict := func(template corev1.PodTemplateSpec) policy.AggregateCheckResult {
		return policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec))
	}
	for _, dir := range []string{"default", "certmanager"} {
		d := deployment(t, dir)
		if got := verdict(d.Spec.Template); !got.Allowed {
			t.Errorf("config/%s: %s: %s", dir, got.ForbiddenReason(), got.ForbiddenDetail())
		}
		d.Spec.Template.Spec.SecurityContext.RunAsNonRoot = nil
		if verdict(d.Spec.Template).Allowed {
			t.Error("a Pod that may run as root was admitted: the check checks nothing")
		}
		container := manager(t, d)
		if readOnly := container.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
			t.Errorf("config/%s: the root file system can be written to", dir)
		}
	}
	namespace := one[*corev1.Namespace](t, render(t, "default"), operatorNamespace)
	if level := namespace.Labels[podsecurity.EnforceLevelLabel]; level != "restricted" {
		t.Errorf("the namespace enforces %q, want restricted", level)
	}
}

// The kubelet kills a Pod after its grace period, which begins with the preStop sleep. The manager
// must finish before that, or it does not release the Lease.
func TestGracePeriodOutlastsGracefulShutdown(t *testing.T) {
	d := deployment(t, "default")
	duration := func(name string) time.Duration {
		t.Helper()
		for _, arg := range manager(t, d).Args {
			if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
				set, err := time.ParseDuration(value)
				if err != nil {
					t.Fatal(err)
				}
				return set
			}
		}
		t.Fatalf("the Deployment sets no --%s", name)
		return 0
	}
	graceful := duration("graceful-shutdown-timeout")
	grace := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	sleep := time.Duration(manager(t, d).Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if sleep < 3*time.Second {
		t.Errorf("the preStop sleep is %s: endpoints and kube-proxy follow within a second each", sleep)
	}
	if grace < sleep+graceful+5*time.Second {
		t.Errorf("the Pod's grace period is %s, its preStop sleep %s and the manager's grace %s: leave 5s",
			grace, sleep, graceful)
	}
}

// A ready replica is kept until its successor is ready. A replica that is not ready never prevents
// the drain of a node.
func TestReplicasAreReplacedWithoutAGap(t *testing.T) {
	d := deployment(t, "default")
	if replicas := *d.Spec.Replicas; replicas != 2 || !slices.Contains(manager(t, d).Args, "--leader-elect") {
		t.Errorf("%d replicas with %v, want 2 that elect a leader", replicas, manager(t, d).Args)
	}
	rolling := d.Spec.Strategy.RollingUpdate
	if unavailable, surge := rolling.MaxUnavailable.IntValue(), rolling.MaxSurge.IntValue(); unavailable != 0 ||
		surge != 1 {
		t.Errorf("maxUnavailable is %d and maxSurge %d, want 0 and 1", unavailable, surge)
	}
	budget := one[*policyv1.PodDisruptionBudget](t, render(t, "default"), deploymentName)
	if budget.Spec.MinAvailable.IntValue() != 1 || budget.Spec.MaxUnavailable != nil {
		t.Errorf("the disruption budget keeps %v available, want 1", budget.Spec.MinAvailable)
	}
	if eviction := budget.Spec.UnhealthyPodEvictionPolicy; eviction == nil || *eviction != policyv1.AlwaysAllow {
		t.Errorf("unhealthyPodEvictionPolicy is %v: two replicas that are not ready could never be evicted", eviction)
	}
}

// Metrics contain the names of buckets and pages, so the network policy admits only namespaces that
// an administrator has labelled.
func TestMetricsAreReachedFromLabelledNamespacesOnly(t *testing.T) {
	network := one[*networkingv1.NetworkPolicy](t, render(t, "network-policy"), deploymentName)
	if !slices.Equal(network.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
		t.Errorf("the policy is about %v, want Ingress", network.Spec.PolicyTypes)
	}
	found := false
	for _, rule := range network.Spec.Ingress {
		if len(rule.Ports) == 0 {
			t.Errorf("the rule %v opens every port", rule)
		}
		if !slices.ContainsFunc(rule.Ports,
			func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == 8443 }) {
			// No selector of Pods or namespaces matches an API server on the network of its node.
			if len(rule.From) > 0 {
				t.Errorf("the webhooks are open to %v only", rule.From)
			}
			continue
		}
		found = true
		want := []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"metrics": "enabled"}}}}
		if diff := gocmp.Diff(want, rule.From); diff != "" {
			t.Errorf("metrics are open to (-want +got):\n%s", diff)
		}
	}
	if !found {
		t.Error("the metrics are open to no namespace")
	}
}

// Selectors of Pods select the manager's, and names of ports name its ports.
func TestSelectorsMatchThePods(t *testing.T) {
	objects := render(t, "default")
	template := one[*appsv1.Deployment](t, objects, deploymentName).Spec.Template
	pod := labels.Set(template.Labels)
	meets := func(what string, selector *metav1.LabelSelector) {
		t.Helper()
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(pod) {
			t.Errorf("%s selects %v (%v), which the Pods are not: %v", what, s, err, pod)
		}
	}
	meets("the disruption budget", one[*policyv1.PodDisruptionBudget](t, objects, deploymentName).Spec.Selector)
	for _, term := range template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		meets("the anti-affinity", term.PodAffinityTerm.LabelSelector)
		// Otherwise both Pods of a new revision may be on the node of an old one that has just exited.
		keys := term.PodAffinityTerm.MatchLabelKeys
		if !slices.Equal(keys, []string{appsv1.DefaultDeploymentUniqueLabelKey}) {
			t.Errorf("the anti-affinity compares Pods with the same %q, want those of one revision", keys)
		}
	}
	ports := map[string]int32{}
	for _, port := range template.Spec.Containers[0].Ports {
		ports[port.Name] = port.ContainerPort
	}
	for name, want := range map[string][2]int32{
		"leasehold-webhook-service":                    {443, 9443},
		"leasehold-controller-manager-metrics-service": {8443, 8443},
	} {
		service := one[*corev1.Service](t, objects, name)
		meets(name, metav1.SetAsLabelSelector(service.Spec.Selector))
		// A Pod that starts has no certificate, and one that stops must get no new requests.
		if service.Spec.PublishNotReadyAddresses || service.Spec.InternalTrafficPolicy != nil {
			t.Errorf("%s does not lead to all ready Pods and to no others", name)
		}
		for _, port := range service.Spec.Ports {
			if got := [2]int32{port.Port, ports[port.TargetPort.String()]}; got != want {
				t.Errorf("%s leads from and to %v, want %v", name, got, want)
			}
		}
	}
	network := one[*networkingv1.NetworkPolicy](t, render(t, "network-policy"), deploymentName)
	meets("the network policy", &network.Spec.PodSelector)
	for _, rule := range network.Spec.Ingress {
		for _, port := range rule.Ports {
			if number := port.Port.IntVal; number != ports["webhook"] && number != ports["metrics"] {
				t.Errorf("the network policy allows port %d, which is neither the webhooks' nor the metrics'", number)
			}
		}
	}
}
