package rights

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
)

// ofNamespace is what Pod Security holds the Pods in a namespace to.
func ofNamespace(obj *unstructured.Unstructured) guarded {
	g := newGuarded()
	g.harmless = true
	enforced := podsecurity.Level(obj.GetLabels()[podsecurity.EnforceLevelLabel])
	for _, level := range []podsecurity.Level{podsecurity.LevelBaseline, podsecurity.LevelRestricted} {
		// A level that does not exist is less than all: the API server enforces none then.
		if podsecurity.CompareLevels(enforced, level) >= 0 {
			g.guards["Pod Security enforces "+string(level)] = true
		}
	}
	return g
}

// ofWorkload is what the Pods of a workload are allowed.
func ofWorkload(obj *unstructured.Unstructured) (guarded, error) {
	g := newGuarded()
	g.harmless = true
	// All kinds of workload have the template at the same place.
	var w appsv1.Deployment
	if err := convert(obj, &w); err != nil {
		return guarded{}, err
	}
	latest, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return guarded{}, fmt.Errorf("making Pod Security's checks: %w", err)
	}
	pod := w.Spec.Template
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for _, result := range latest.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			g.holes["Pods against Pod Security restricted: "+result.ForbiddenReason] = true
		}
	}
	// The rest is what Pod Security does not ask for.
	if pod.Spec.AutomountServiceAccountToken != nil && !*pod.Spec.AutomountServiceAccountToken {
		g.guards["Pods without a token"] = true
	}
	for _, c := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
		if ptr.Deref(c.SecurityContext, corev1.SecurityContext{}).ReadOnlyRootFilesystem != nil && *c.SecurityContext.ReadOnlyRootFilesystem {
			g.guards["read-only root file system in container "+c.Name] = true
		}
	}
	return g, nil
}
