package markdownview

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"leasehold.dev/api/v1beta1"
)

// seeds are views with extreme values: empty, huge, unicode, paths, markup, templates, and JSON
// that is no view.
var seeds = []string{
	`{}`,
	`{"metadata":{"name":"a"},"spec":{"markdowns":{"SUMMARY.md":"- [A](a.md)","a.md":"x"},"replicas":2}}`,
	`{"metadata":{"name":"a.b"},"spec":{"markdowns":{"../x.md":"","/etc/passwd":"","..data":"","":"","a\u0000.md":""}}}`,
	`{"metadata":{"name":"` + strings.Repeat("a", 56) + `"},"spec":{"markdowns":{"SUMMARY.md":""}}}`,
	`{"metadata":{"name":"` + strings.Repeat("a", 57) + `"},"spec":{"replicas":-2147483648,"viewerImage":"` +
		strings.Repeat("a/", 300) + `"}}`,
	`{"metadata":{"name":"a"},"spec":{"markdowns":{"SUMMARY.md":"` + strings.Repeat("[", 3000) +
		`"},"viewerImage":"a:latest","viewerArgs":["--","\u0000","$(POD)"]}}`,
	`{"metadata":{"name":"a"},"spec":{"markdowns":{"SUMMARY.md":"{{.}}<script>","é.md":""},"viewerImage":"Ä@sha256:x"}}`,
}

func fuzzView(f *testing.F, check func(*testing.T, *v1beta1.MarkdownView)) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v v1beta1.MarkdownView
		if json.Unmarshal(data, &v) != nil {
			t.Skip("not a MarkdownView")
		}
		v.UID, v.Namespace = "uid", "ns"
		check(t, &v)
	})
}

// FuzzValidate checks that nothing panics, and that the API server can store a valid view and its
// children: its file names are keys of a ConfigMap and file names, and they fit into one ConfigMap.
func FuzzValidate(f *testing.F) {
	fuzzView(f, func(t *testing.T, v *v1beta1.MarkdownView) {
		old := v.DeepCopy()
		w := &Webhook{}
		_, createErr := w.ValidateCreate(t.Context(), v)
		if _, err := w.ValidateUpdate(t.Context(), v, v); err != nil {
			t.Errorf("an update without a change is rejected: %v", err)
		}
		if diff := cmp.Diff(old.Spec.Markdowns, v.Spec.Markdowns); diff != "" {
			t.Errorf("the content was changed:\n%s", diff)
		}
		if errs := validate(inCache(t, v).(*v1beta1.MarkdownView)); createErr == nil && len(errs) > 0 {
			t.Errorf("the webhook accepts what the reconciler does not: %v", errs)
		}
		if createErr != nil {
			return
		}
		size := 0
		for name, content := range v.Spec.Markdowns {
			size += len(name) + len(content)
			if msgs := validation.IsConfigMapKey(name); len(msgs) > 0 || strings.ContainsAny(name, "/\\\n\x00") ||
				strings.HasPrefix(name, ".") {
				t.Errorf("file name %q passed: %v", name, msgs)
			}
		}
		if _, ok := v.Spec.Markdowns["SUMMARY.md"]; !ok || size > 900<<10 {
			t.Errorf("%d bytes, with SUMMARY.md: %t", size, ok)
		}
	})
}

// FuzzRender checks that render is pure, and that no spec extends the rights of the Pod: each Pod
// is admitted by `restricted`, and has no token and nothing from the host.
func FuzzRender(f *testing.F) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		f.Fatal(err)
	}
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	fuzzView(f, func(t *testing.T, v *v1beta1.MarkdownView) {
		before, c := v.DeepCopy(), render(v, "hash", defaultImage)
		if diff := cmp.Diff(render(v, "hash", defaultImage), c, cmp.AllowUnexported(children{})); diff != "" {
			t.Errorf("rendered twice:\n%s", diff)
		}
		if diff := cmp.Diff(before, v); diff != "" {
			t.Errorf("rendering changed the view:\n%s", diff)
		}
		text, err := json.Marshal(c.deployment.Spec.Template.Spec)
		if err != nil {
			t.Fatal(err)
		}
		var pod corev1.PodSpec
		if err := json.Unmarshal(text, &pod); err != nil {
			t.Fatal(err)
		}
		verdict := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &metav1.ObjectMeta{}, &pod))
		if !verdict.Allowed || *pod.AutomountServiceAccountToken || len(pod.Containers) != 1 || len(pod.Volumes) != 2 {
			t.Errorf("a Pod that is not restricted: %s", verdict.ForbiddenDetail())
		}
		if len(c.configMap.Data) != len(v.Spec.Markdowns) {
			t.Errorf("%d keys for %d files", len(c.configMap.Data), len(v.Spec.Markdowns))
		}
	})
}
