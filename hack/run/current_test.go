package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/leasehold"
)

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// The operator of the checkout works on a cluster that exists, changes nothing there but the
// definitions and what users create, and leaves an installation alone.
func TestCurrentCluster(t *testing.T) {
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		t.Skip("needs a cluster of its own")
	}
	plane, err := env.Start(t.Context(), env.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("KUBECONFIG", plane.Kubeconfig())
	scheme := leasehold.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &settings{manager: filepath.Join("..", "..", "bin", "manager"), config: filepath.Join("..", "..", "config"),
		workDir: t.TempDir(), cluster: clusterCurrent}

	installed := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: installedWebhooks}}
	if err := c.Create(t.Context(), installed); err != nil {
		t.Fatal(err)
	}
	err = runCurrent(t.Context(), s, newProgress(&buffer{}))
	if err == nil || !strings.Contains(err.Error(), "nothing has been changed") {
		t.Fatalf("beside an installation it returns %v", err)
	}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(t.Context(), definitions); err != nil || len(definitions.Items) > 0 {
		t.Fatalf("beside an installation it makes %d definitions (%v)", len(definitions.Items), err)
	}
	if err := c.Delete(t.Context(), installed); err != nil {
		t.Fatal(err)
	}

	leavesNewerDefinition(t, c, s)

	ctx, stop := context.WithCancel(t.Context())
	out, ended := &buffer{}, make(chan error, 1)
	go func() { ended <- runCurrent(ctx, s, newProgress(out)) }()
	tenant := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Spec: v1beta1.TenantSpec{
		Namespaces: []v1beta1.NamespaceSuffix{"dev"},
		Admins:     []v1beta1.Subject{{Kind: v1beta1.SubjectUser, Name: "jane"}},
	}}
	until(t, out, func(ctx context.Context) bool { return c.Create(ctx, tenant) == nil })
	until(t, out, func(ctx context.Context) bool {
		return c.Get(ctx, client.ObjectKeyFromObject(tenant), tenant) == nil &&
			meta.IsStatusConditionTrue(tenant.Status.Conditions, v1beta1.ConditionReady)
	})
	if diff := cmp.Diff([]string{"here-dev"}, namespaces(t, c)); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v:\n%s", err, out)
	}
	for _, want := range []string{"context ", " at " + plane.Config().Host,
		"applied CustomResourceDefinition tenants.leasehold.dev", "not served here", "admission webhooks", "no samples either", "the definitions and all objects stay"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
	if left, err := os.ReadDir(s.workDir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind (%v)", left, err)
	}
}

// leavesNewerDefinition checks that a definition with a field that the checkout lacks, which another
// manager applied, stops the run before it changes anything.
func leavesNewerDefinition(t *testing.T, c client.Client, s *settings) {
	t.Helper()
	shipped, err := readDefinitions(s.config)
	if err != nil {
		t.Fatal(err)
	}
	newer := shipped[len(shipped)-1] // the others would be applied before it
	versions, _, err := unstructured.NestedSlice(newer.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(versions[0].(map[string]any), map[string]any{"type": "string"},
		"schema", "openAPIV3Schema", "properties", "spec", "properties", "future"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(newer.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	applied := client.ApplyConfigurationFromUnstructured(newer)
	if err := c.Apply(t.Context(), applied, client.FieldOwner("helm")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second) // it does not end by itself if it takes the definition
	defer stop()
	err = runCurrent(ctx, s, newProgress(&buffer{}))
	if err == nil || !strings.Contains(err.Error(), "nothing has been changed") || !strings.Contains(err.Error(), "helm") {
		t.Errorf("beside a newer definition it returns %v", err)
	}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(t.Context(), definitions); err != nil || len(definitions.Items) != 1 {
		t.Fatalf("beside a newer definition there are %d (%v)", len(definitions.Items), err)
	}
	schema := definitions.Items[0].Spec.Versions[0].Schema.OpenAPIV3Schema
	if _, kept := schema.Properties["spec"].Properties["future"]; !kept {
		t.Error("the newer definition has lost its field")
	}
	if err := c.Delete(t.Context(), &definitions.Items[0]); err != nil {
		t.Fatal(err)
	}
	until(t, &buffer{}, func(ctx context.Context) bool {
		return c.List(ctx, definitions) == nil && len(definitions.Items) == 0
	})
}

func TestCurrentCluster_withoutContext(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	err := runCurrent(t.Context(), &settings{workDir: t.TempDir()}, newProgress(&buffer{}))
	if err == nil || !strings.Contains(err.Error(), "finding the current context") {
		t.Errorf("without a kubeconfig it returns %v", err)
	}
}

func until(t *testing.T, out *buffer, done func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), pollInterval, time.Minute, true,
		func(ctx context.Context) (bool, error) { return done(ctx), nil })
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// namespaces returns the names of those that Kubernetes does not have by itself.
func namespaces(t *testing.T, c client.Client) []string {
	t.Helper()
	list := &corev1.NamespaceList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ns := range list.Items {
		if ns.Name != "default" && !strings.HasPrefix(ns.Name, "kube-") {
			names = append(names, ns.Name)
		}
	}
	return names
}
