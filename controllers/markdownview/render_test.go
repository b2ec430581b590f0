// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/golden"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1beta1"
)

// TestChildrenGolden compares the rendered children with testdata/children.yaml. A change of a
// selector there cannot be released: that of an existing Deployment is immutable.
func TestChildrenGolden(t *testing.T) {
	var got strings.Builder
	for _, v := range []*v1beta1.MarkdownView{view(), view(image(""), replicas(0), args("--title", "A"))} {
		c := render(v, hashOf(t, v), defaultImage)
		for _, child := range []any{c.configMap, c.deployment, c.service} {
			text, err := yaml.Marshal(child)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "---\n%s", text)
		}
	}
	golden.Assert(t, got.String(), "children.yaml")
}

// No spec extends the rights of the Pod: each is admitted by `restricted`, and has no token and
// nothing from the host. Only an image that a view names gets a user.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for _, name := range []string{"", "a:latest", strings.Repeat("a/", 300), "$(POD)"} {
		v := view(image(name), args("--", "\x00", "$(POD)"), replicas(-1), showing(files{"../x.md": "{{.}}"}))
		before := v.DeepCopy()
		template := typed[appsv1.Deployment](t, render(v, "hash", defaultImage).deployment).Spec.Template
		verdict := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec))
		pod := template.Spec
		if !verdict.Allowed || *pod.AutomountServiceAccountToken || len(pod.Containers) != 1 || len(pod.Volumes) != 2 {
			t.Errorf("image %q: a Pod that is not restricted: %s", name, verdict.ForbiddenDetail())
		}
		mounts := pod.Containers[0].VolumeMounts
		if !*pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem || *pod.EnableServiceLinks || !mounts[0].ReadOnly ||
			pod.Volumes[1].EmptyDir.SizeLimit.IsZero() || pod.Containers[0].Resources.Limits.Memory().IsZero() {
			t.Errorf("image %q: the Pod can write to its files, knows the other Services, or has no bound: %+v", name, pod)
		}
		if (pod.SecurityContext.RunAsUser == nil) != (name == "") || !*pod.SecurityContext.RunAsNonRoot {
			t.Errorf("image %q runs by %+v", name, pod.SecurityContext)
		}
		if !equality.Semantic.DeepEqual(before, v) {
			t.Errorf("image %q: rendering changed the view", name)
		}
	}
}

func TestContentHash(t *testing.T) {
	hash := func(texts files) string { return hashOf(t, view(showing(texts))) }
	base := hash(files{"a": "bc", "d": ""})
	for reason, other := range map[string]files{
		"content changed":                   {"a": "bd", "d": ""},
		"a file removed":                    {"a": "bc"},
		"a file added":                      {"a": "bc", "d": "", "e": ""},
		"a file renamed":                    {"a": "bc", "e": ""},
		"contents swapped":                  {"a": "", "d": "bc"},
		"a letter moved from name to text":  {"ab": "c", "d": ""},
		"a text that looks like a boundary": {"a": "bc\nd\n"},
		"a text that looks like a digest":   {"a": v1beta1.MarkdownText(digest("bc")), "d": ""},
		"nothing":                           {},
	} {
		if hash(other) == base {
			t.Errorf("%s: the hash is the same", reason)
		}
	}
	if again := hash(files{"d": "", "a": "bc"}); again != base || len(base) != 64 {
		t.Errorf("%s and %s, want the same twice, of 64 letters", base, again)
	}
}
