// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/markdownview/viewer/markdown"
	viewer "leasehold.dev/controllers/markdownview/viewer/render"
)

// field returns the schema of a field of a kind.
func field(t *testing.T, definition string, path ...string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	crd := one[*apiextensionsv1.CustomResourceDefinition](t, render(t, "default"), definition)
	schema := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range path {
		schema = schema.Properties[name]
	}
	return schema
}

// The schema must have the limits of fields that the scale subresource changes, because the API
// server does not call a kind's webhook for its subresources.
func TestMarkdownViewDefinition(t *testing.T) {
	const definition = "markdownviews.leasehold.dev"
	replicas, markdowns := field(t, definition, "spec", "replicas"), field(t, definition, "spec", "markdowns")
	got := []any{*replicas.Minimum, *replicas.Maximum, *markdowns.MaxProperties,
		*field(t, definition, "spec", "viewerArgs").MaxItems}
	want := []any{float64(v1beta1.MinViewerReplicas), float64(v1beta1.MaxViewerReplicas),
		int64(v1beta1.MaxMarkdowns), int64(v1beta1.MaxViewerArgs)}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("limits of replicas, files and arguments (-want +got):\n%s", diff)
	}
	rule := field(t, definition).XValidations[0].Rule
	// A Service's name, with its prefix, may have 63 characters.
	length := fmt.Sprintf("self.metadata.name.size() <= %d &&", 63-len("viewer-"))
	if !strings.HasPrefix(rule, length) {
		t.Errorf("the rule of the name is %q, want %q in it", rule, length)
	}
	// No schema rule counts bytes, so the webhook checks the size and the description documents it.
	text := strings.ReplaceAll(markdowns.Description, "\n", " ")
	if want := fmt.Sprintf("at most %d KiB", v1beta1.MaxMarkdownBytes>>10); !strings.Contains(text, want) {
		t.Errorf("markdowns are described by %q, want %q in it", text, want)
	}
}

// The API server rejects a status with more namespaces than the schema allows. The webhooks have the same limits.
func TestTenantDefinition(t *testing.T) {
	for path, want := range map[[2]string]int64{
		{"spec", "namespaces"}: v1beta1.MaxNamespaces, {"status", "namespaces"}: v1beta1.MaxStatusNamespaces,
		{"spec", "admins"}: v1beta1.MaxAdmins, {"status", "conditions"}: v1beta1.MaxConditions,
	} {
		if most := *field(t, "tenants.leasehold.dev", path[:]...).MaxItems; most != want {
			t.Errorf("%s has at most %d items, want %d", path, most, want)
		}
	}
}

// The operator cuts a timeout that is longer, so the API server has to refuse it.
func TestStorageBucketDefinition(t *testing.T) {
	most := *field(t, "storagebuckets.leasehold.dev", "spec", "probe", "timeoutSeconds").Maximum
	want := capture(t, "controllers/storagebucket/observe.go", `maxTimeout = (\d+) \* time.Second`)
	if fmt.Sprint(most) != want {
		t.Errorf("timeoutSeconds is at most %v, want %s", most, want)
	}
}

// The sample lists each page, and each link leads to a page.
func TestMarkdownViewSample(t *testing.T) {
	views := all[*v1beta1.MarkdownView](render(t, "samples"))
	if len(views) != 1 || views[0].Namespace != "default" {
		t.Fatalf("got %d MarkdownViews, want one in namespace default, which every cluster has", len(views))
	}
	files, listed := views[0].Spec.Markdowns, map[string]bool{markdown.SummaryName: true}
	for _, entry := range viewer.Contents([]byte(files[markdown.SummaryName])).Entries {
		if _, ok := files[entry.File]; !ok {
			t.Errorf("the entry %q leads to no page", entry.Title)
		}
		listed[entry.File] = true
	}
	if len(files) < 3 || len(listed) != len(files) {
		t.Errorf("%d files, of which %d are listed, want some and all", len(files), len(listed))
	}
}

// `make deploy` must set the flag to VIEWER_IMG and the Pod's image to IMG.
func TestDeployedImages(t *testing.T) {
	find := exec.CommandContext(t.Context(), "go", "tool", "-n", "kustomize")
	find.Dir = filepath.Join("..", "..", "hack", "tools")
	find.Env = append(os.Environ(), "GOWORK=off") // a module that go.work does not have
	kustomize, err := find.Output()
	if err != nil {
		t.Fatal(err)
	}
	const viewer = "registry.example.com:5000/viewer@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for _, overlay := range []string{"config/default", "config/certmanager"} {
		rendered := rendering(t, string(bytes.TrimSpace(kustomize)), overlay, "registry.example.com/manager:v1", viewer)
		d := one[*appsv1.Deployment](t, decode(t, rendered), deploymentName)
		container := manager(t, d)
		if container.Image != "registry.example.com/manager:v1" ||
			!slices.Contains(container.Args, "--default-viewer-image="+viewer) {
			t.Errorf("%s: image %q with %q", overlay, container.Image, container.Args)
		}
	}
	bad := exec.CommandContext(t.Context(), filepath.Join("..", "..", "hack", "render.sh"), "kustomize", "config/default",
		"a:b", "x|y")
	if out, err := bad.CombinedOutput(); err == nil || !strings.Contains(string(out), "not the name of an image") {
		t.Errorf("an invalid name gave %v and %q, want a refusal", err, out)
	}
}

func rendering(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "hack", "render.sh"), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("rendering %q: %v\n%s", args, err, &stderr)
	}
	return out
}
