package manifests

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/markdownview/summary"
)

// The schema has the limits of fields that the scale subresource changes: the API server does
// not call a webhook of the kind for its subresources.
func TestMarkdownViewDefinition(t *testing.T) {
	crd := one[*apiextensionsv1.CustomResourceDefinition](t, render(t, "default"), "markdownviews.leasehold.dev")
	version := crd.Spec.Versions[0]
	replicas := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["replicas"]
	if ptr.Deref(replicas.Minimum, 0) != v1beta1.MinViewerReplicas ||
		ptr.Deref(replicas.Maximum, 0) != v1beta1.MaxViewerReplicas {
		t.Errorf("replicas from %v to %v, want from %d to %d",
			replicas.Minimum, replicas.Maximum, v1beta1.MinViewerReplicas, v1beta1.MaxViewerReplicas)
	}
	if want := fmt.Sprintf("self.metadata.name.size() <= %d &&",
		v1beta1.MaxMarkdownViewName); !strings.HasPrefix(version.Schema.OpenAPIV3Schema.XValidations[0].Rule, want) {
		t.Errorf("the rule of the name is %q, want %q in it", version.Schema.OpenAPIV3Schema.XValidations[0].Rule, want)
	}
	// The webhook checks the size, because no schema rule counts bytes. The description documents
	// it.
	markdowns := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["markdowns"]
	images := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["viewerImage"]
	if ptr.Deref(images.MaxLength, 0) != v1beta1.MaxViewerImage {
		t.Errorf("images have at most %d characters, want %d", ptr.Deref(images.MaxLength, 0), v1beta1.MaxViewerImage)
	}
	arguments := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["viewerArgs"]
	if files, args := ptr.Deref(markdowns.MaxProperties, 0), ptr.Deref(arguments.MaxItems, 0); files !=
		v1beta1.MaxMarkdowns || args != v1beta1.MaxViewerArgs {
		t.Errorf("a view has at most %d files and %d arguments, want %d and %d", files, args, v1beta1.MaxMarkdowns,
			v1beta1.MaxViewerArgs)
	}
	if want := fmt.Sprintf("at most %d KiB",
		v1beta1.MaxMarkdownBytes>>10); !strings.Contains(strings.ReplaceAll(markdowns.Description, "\n", " "), want) {
		t.Errorf("markdowns are described by %q, want %q in it", markdowns.Description, want)
	}
}

// The API server rejects a status with more namespaces than the schema allows.
func TestTenantDefinition(t *testing.T) {
	crd := one[*apiextensionsv1.CustomResourceDefinition](t, render(t, "default"), "tenants.leasehold.dev")
	namespaces := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["namespaces"]
	if most := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["namespaces"].MaxItems; ptr.Deref(
		most, 0) != v1beta1.MaxNamespaces {
		t.Errorf("the spec has at most %v namespaces, want %d", ptr.Deref(most, 0), v1beta1.MaxNamespaces)
	}
	if ptr.Deref(namespaces.MaxItems, 0) != v1beta1.MaxStatusNamespaces {
		t.Errorf("the status has at most %v namespaces, want %d", ptr.Deref(namespaces.MaxItems, 0),
			v1beta1.MaxStatusNamespaces)
	}
}

// The sample warns of nothing: each page is listed, and each link leads somewhere.
func TestMarkdownViewSample(t *testing.T) {
	views := all[*v1beta1.MarkdownView](render(t, "samples"))
	if len(views) != 1 || views[0].Namespace != "default" {
		t.Fatalf("got %d MarkdownViews, want one in namespace default, which every cluster has", len(views))
	}
	files := map[string]string{}
	for name, text := range views[0].Spec.Markdowns {
		files[name] = string(text)
	}
	if diff := gocmp.Diff(summary.Problems{}, summary.Check(files)); diff != "" {
		t.Errorf("problems with the sample (-want +got):\n%s", diff)
	}
	if len(files) < 3 {
		t.Errorf("%d files: too few to show anything", len(files))
	}
}

// `make deploy VIEWER_IMG=...` has to reach the flag, and IMG the Pod.
func TestDeployedImages(t *testing.T) {
	find := exec.CommandContext(t.Context(), "go", "tool", "-n", "kustomize")
	find.Dir = filepath.Join("..", "..", "hack", "tools")
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
		t.Errorf("a strange name gave %v and %q, want a refusal", err, out)
	}
}

func rendering(t *testing.T, args ...string) []byte {
	t.Helper()
	dependOn(t, filepath.Join("..", "..", "config"))
	dependOn(t, filepath.Join("..", "..", "hack", "render.sh"))
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "hack", "render.sh"), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("rendering %q: %v\n%s", args, err, &stderr)
	}
	return out
}
