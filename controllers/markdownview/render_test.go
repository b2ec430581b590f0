package markdownview

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"leasehold.dev/api/v1beta1"
)

// deploymentFor returns the rendered Deployment as a typed object.
func deploymentFor(t *testing.T, v *v1beta1.MarkdownView) *appsv1.Deployment {
	t.Helper()
	data, err := json.Marshal(render(v, defaultImage).deployment)
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := json.Unmarshal(data, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The evaluator is the API server's own.
func TestPodIsAdmittedAsRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	verdict := func(d *appsv1.Deployment) policy.AggregateCheckResult {
		return policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &d.Spec.Template.ObjectMeta,
			&d.Spec.Template.Spec))
	}
	d := deploymentFor(t, view())
	if got := verdict(d); !got.Allowed {
		t.Errorf("%s: %s", got.ForbiddenReason(), got.ForbiddenDetail())
	}
	d.Spec.Template.Spec.SecurityContext = nil
	if verdict(d).Allowed {
		t.Error("a Pod that may run as root was admitted: the evaluator is not in use")
	}
}

// A Deployment's selector is immutable: a release with other labels could not update any existing
// Deployment.
func TestSelectorIsStable(t *testing.T) {
	d := deploymentFor(t, view())
	want := map[string]string{"app.kubernetes.io/name": "markdownview-viewer", "app.kubernetes.io/instance": "book"}
	if diff := cmp.Diff(want, d.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	if !labels.SelectorFromSet(want).Matches(labels.Set(d.Spec.Template.Labels)) {
		t.Errorf("the Pods have the labels %v, which the selector does not match", d.Spec.Template.Labels)
	}
	if diff := cmp.Diff(want, render(view(), "").service.Spec.Selector); diff != "" {
		t.Errorf("the Service's selector (-want +got):\n%s", diff)
	}
	if got := selectorText(view()); got != "app.kubernetes.io/instance=book,app.kubernetes.io/name=markdownview-viewer" {
		t.Errorf("selector as text: %s", got)
	}
}

func TestContentHash(t *testing.T) {
	base := contentHash(map[string]string{"a": "bc", "d": ""})
	for reason, other := range map[string]map[string]string{
		"content changed":                   {"a": "bd", "d": ""},
		"a file removed":                    {"a": "bc"},
		"a file added":                      {"a": "bc", "d": "", "e": ""},
		"a file renamed":                    {"a": "bc", "e": ""},
		"contents swapped":                  {"a": "", "d": "bc"},
		"a letter moved from name to text":  {"ab": "c", "d": ""},
		"a text that looks like a boundary": {"a": "bc1:d0:"},
		"nothing":                           {},
	} {
		if contentHash(other) == base {
			t.Errorf("%s: the hash is the same", reason)
		}
	}
	if again := contentHash(map[string]string{"d": "", "a": "bc"}); again != base || len(base) != 64 {
		t.Errorf("%s and %s, want the same twice, of 64 letters", base, again)
	}
}

func TestRenderedFields(t *testing.T) {
	d := deploymentFor(t, view(image(""), replicas(0)))
	if *d.Spec.Replicas != 1 || d.Spec.Template.Spec.Containers[0].Image != defaultImage ||
		d.Spec.Template.Spec.Containers[0].Args != nil {
		t.Errorf("without defaults: %d replicas of %q with %q", *d.Spec.Replicas,
			d.Spec.Template.Spec.Containers[0].Image, d.Spec.Template.Spec.Containers[0].Args)
	}
	d = deploymentFor(t, view(func(v *v1beta1.MarkdownView) { v.Spec.ViewerArgs = []v1beta1.ViewerArg{"a", "b"} }))
	if diff := cmp.Diff([]string{"a", "b"}, d.Spec.Template.Spec.Containers[0].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	// Without the pause, the nodes still route requests to a stopped viewer during a rollout.
	pod := d.Spec.Template.Spec
	if stop := pod.Containers[0].Lifecycle.PreStop; stop == nil || stop.Sleep == nil ||
		stop.Sleep.Seconds != preStopSeconds {
		t.Errorf("the preStop hook is %v, want to sleep for %d s", stop, preStopSeconds)
	}
	// A viewer that renders a slow page needs time and no restart.
	alive, ready := pod.Containers[0].LivenessProbe, pod.Containers[0].ReadinessProbe
	if after := alive.PeriodSeconds * alive.FailureThreshold; after != 120 || alive.TimeoutSeconds != 10 {
		t.Errorf("a viewer is restarted after %d s without a response within %d s, want 120 and 10", after,
			alive.TimeoutSeconds)
	}
	if ready.PeriodSeconds != 5 || ready.TimeoutSeconds != 3 {
		t.Errorf("readiness is probed each %d s for at most %d s, want 5 and 3", ready.PeriodSeconds, ready.TimeoutSeconds)
	}
	// A viewer parses untrusted text, so it writes only scratch files, and learns nothing of the
	// cluster.
	if mounts := pod.Containers[0].VolumeMounts; len(mounts) != 2 || !mounts[0].ReadOnly ||
		mounts[0].MountPath != "/book/src" || mounts[1].MountPath != "/tmp" {
		t.Errorf("mounts %+v, want the content read-only, and /tmp", mounts)
	}
	if c := pod.Containers[0].SecurityContext; !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation {
		t.Errorf("security context %+v, want a read-only root and no escalation", c)
	}
	if *pod.EnableServiceLinks || *pod.AutomountServiceAccountToken || len(pod.Containers[0].Env) > 0 {
		t.Error("the viewer has service links, a token or an environment")
	}
	if size := pod.Volumes[1].EmptyDir.SizeLimit.String(); size != "64Mi" {
		t.Errorf("the scratch volume has %s, want 64Mi", size)
	}
	if memory := pod.Containers[0].Resources.Limits.Memory().String(); memory != "256Mi" {
		t.Errorf("the memory limit is %s, want 256Mi", memory)
	}
	longest := view(func(v *v1beta1.MarkdownView) { v.Name = strings.Repeat("a", v1beta1.MaxMarkdownViewName) })
	if msgs := validation.IsDNS1035Label(*render(longest, "").service.Name); len(msgs) > 0 {
		t.Errorf("the Service of the longest name: %v", msgs)
	}
	if got := urlOf(view()); got != "http://viewer-book.ns.svc" {
		t.Errorf("url %s", got)
	}
}

// Dashboards, other tools and the cache depend on these labels and annotations.
func TestChildrenHaveOwnershipMetadata(t *testing.T) {
	c := render(view(), "")
	if got := c.deployment.Spec.Template.Annotations[v1beta1.AnnotationContentHash]; got != c.hash {
		t.Errorf("the Pods have the hash %q, want %q", got, c.hash)
	}
	for kind, labelled := range map[string]map[string]string{"ConfigMap": c.configMap.Labels,
		"Deployment": c.deployment.Labels, "Service": c.service.Labels} {
		if labelled[v1beta1.LabelManagedBy] != v1beta1.ManagedByValue {
			t.Errorf("%s has the labels %v: the manager's cache would not hold it", kind, labelled)
		}
	}
	owner := c.service.OwnerReferences[0]
	if *owner.UID != "uid" || !*owner.Controller || !*owner.BlockOwnerDeletion {
		t.Errorf("owner %v", owner)
	}
}

// The page is served during the whole rollout.
func TestRolloutKeepsReplicasAvailable(t *testing.T) {
	strategy := deploymentFor(t, view()).Spec.Strategy
	if strategy.Type != appsv1.RollingUpdateDeploymentStrategyType ||
		strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 || strategy.RollingUpdate.MaxSurge.IntValue() != 1 {
		t.Errorf("the strategy is %+v, want a new viewer before one is stopped", strategy)
	}
}
