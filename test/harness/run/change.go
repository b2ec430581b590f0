package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/test/harness/scenario"
)

// InstallationChange is one change of the installation: of a flag, or of a right.
type InstallationChange struct {
	Name string `json:"name"`
	// Scenarios are the names of those in which the change is made. Empty means all.
	Scenarios []string `json:"scenarios,omitempty"`
	// Flag is an additional argument with which the replicas are restarted.
	Flag string `json:"flag,omitempty"`
	// Object is the role that loses a right.
	Object *scenario.Ref `json:"object,omitempty"`
	// Without is the right that the role loses.
	Without *Right `json:"without,omitempty"`
}

// Right is a set of verbs on a resource.
type Right struct {
	Group    string   `json:"group,omitempty"`
	Resource string   `json:"resource"`
	Verbs    []string `json:"verbs"`
}

// Fault returns the fault that makes the change.
func (c InstallationChange) Fault() scenario.FaultName {
	if c.Flag != "" {
		return FlagChange
	}
	return RuleChange
}

// Validate rejects incomplete and contradictory changes.
func (c InstallationChange) Validate() error {
	role := c.Object != nil && c.Object.Name != "" && c.Object.APIVersion == rbacv1.SchemeGroupVersion.String() &&
		(c.Object.Kind == "ClusterRole" || c.Object.Kind == "Role")
	switch {
	case c.Name == "" || strings.Contains(c.Name, ":"):
		return fmt.Errorf("change %q: it needs a name without a colon, as its plans are called by it", c.Name)
	case c.Flag != "" && (c.Object != nil || c.Without != nil):
		return fmt.Errorf("change %s: it is either of a flag or of a role", c.Name)
	case c.Flag == "" && !role:
		return fmt.Errorf("change %s: name a flag, or as its object a Role or ClusterRole", c.Name)
	case c.Flag == "" && c.Without == nil:
		return fmt.Errorf("change %s: name the right that the role loses", c.Name)
	case c.Without != nil && (c.Without.Resource == "" || len(c.Without.Verbs) == 0):
		return fmt.Errorf("change %s: a right is verbs on a resource", c.Name)
	}
	return nil
}

// removeRight changes the role and returns it. An unchanged version means that the role did not
// have the right.
func (c InstallationChange) removeRight(ctx context.Context, o object,
	before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	role := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(before.Object, role); err != nil {
		return nil, fmt.Errorf("decoding the role: %w", err)
	}
	body, err := json.Marshal(map[string]any{"rules": without(role.Rules, *c.Without)})
	if err != nil {
		return nil, fmt.Errorf("encoding the rules: %w", err)
	}
	return o.Patch(ctx, o.key.Name, types.MergePatchType, body, metav1.PatchOptions{})
}

// without removes a right from rules. It splits a rule that allows it, so the rest stays allowed.
func without(rules []rbacv1.PolicyRule, right Right) []rbacv1.PolicyRule {
	var left []rbacv1.PolicyRule
	for _, rule := range rules {
		if !slices.Contains(rule.APIGroups, right.Group) || !slices.Contains(rule.Resources, right.Resource) {
			left = append(left, rule)
			continue
		}
		others := *rule.DeepCopy()
		others.Resources = slices.DeleteFunc(others.Resources, func(r string) bool { return r == right.Resource })
		if len(others.Resources) > 0 {
			left = append(left, others)
		}
		rest := *rule.DeepCopy()
		rest.Resources = []string{right.Resource}
		rest.Verbs = slices.DeleteFunc(rest.Verbs, func(v string) bool { return slices.Contains(right.Verbs, v) })
		if len(rest.Verbs) > 0 {
			left = append(left, rest)
		}
	}
	return left
}
