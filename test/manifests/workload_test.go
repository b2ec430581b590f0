package manifests

import (
	"os/exec"
	"path/filepath"
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

// manager returns the one container.
func manager(t *testing.T, d *appsv1.Deployment) corev1.Container {
	t.Helper()
	if n := len(d.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("the Pod has %d containers, want 1", n)
	}
	return d.Spec.Template.Spec.Containers[0]
}

// The namespace enforces `restricted`, by the evaluator that the API server uses.
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

// The manager's own parser must take every argument that is shipped.
func TestArgumentsAreKnownToTheManager(t *testing.T) {
	for _, dir := range []string{"default", "certmanager"} {
		t.Run(dir, func(t *testing.T) {
			args := manager(t, deployment(t, dir)).Args
			if out, err := managerHelp(t, args); err != nil {
				t.Errorf("the manager refuses %v: %v\n%s", args, err, out)
			}
			if _, err := managerHelp(t, append(slices.Clone(args), "--no-such-flag")); err == nil {
				t.Error("the manager takes a flag that does not exist: the check checks nothing")
			}
		})
	}
}

// managerHelp runs the manager so far that it has parsed args, and no further.
func managerHelp(t *testing.T, args []string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"run", "."}, args...), "--help")...)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A Pod is killed after its grace period, which begins with the preStop sleep; the
// manager needs all of its own before that, or it keeps the Lease.
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
	delay, graceful := duration("shutdown-delay-duration"), duration("graceful-shutdown-timeout")
	grace := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	sleep := time.Duration(manager(t, d).Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if sleep < 3*time.Second {
		t.Errorf("the preStop sleep is %s: endpoints and kube-proxy follow within a second each", sleep)
	}
	if delay < time.Second {
		t.Errorf("the shutdown delay is %s: the API server's connections end with their next request", delay)
	}
	if grace < sleep+delay+graceful+5*time.Second {
		t.Errorf("the Pod's grace period is %s, its preStop sleep %s, the manager's delay %s and its grace %s: leave 5s", grace, sleep, delay, graceful)
	}
}

func TestProbesAndEnvironment(t *testing.T) {
	d := deployment(t, "default")
	container := manager(t, d)
	if replicas := *d.Spec.Replicas; replicas != 2 {
		t.Errorf("%d replicas, want 2", replicas)
	}
	if !slices.Contains(container.Args, "--leader-elect") {
		t.Error("two replicas without leader election")
	}
	type probe struct {
		Path          string
		Initial, Each int32
	}
	of := func(p *corev1.Probe) probe {
		return probe{p.HTTPGet.Path, p.InitialDelaySeconds, p.PeriodSeconds}
	}
	if diff := gocmp.Diff(probe{"/healthz", 15, 20}, of(container.LivenessProbe)); diff != "" {
		t.Errorf("liveness probe (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(probe{"/readyz", 5, 10}, of(container.ReadinessProbe)); diff != "" {
		t.Errorf("readiness probe (-want +got):\n%s", diff)
	}
	env := map[string]string{}
	for _, e := range container.Env {
		env[e.Name] = e.ValueFrom.FieldRef.FieldPath
	}
	want := map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
	if diff := gocmp.Diff(want, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// What selects Pods must select these, and what names a port must name one.
func TestSelectorsMeetThePods(t *testing.T) {
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
	budget := one[*policyv1.PodDisruptionBudget](t, objects, deploymentName)
	meets("the disruption budget", budget.Spec.Selector)
	if budget.Spec.MinAvailable.IntValue() != 1 {
		t.Errorf("the disruption budget keeps %v available, want 1", budget.Spec.MinAvailable)
	}
	for _, term := range template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		meets("the anti-affinity", term.PodAffinityTerm.LabelSelector)
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
				t.Errorf("the network policy opens %d, which is neither webhook nor metrics", number)
			}
		}
	}
}
