// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
)

// mirror gives each ConfigMap with the label mirror a Secret with the same content, which it owns.
type mirror struct{ client.Client }

func (m *mirror) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	source := &corev1.ConfigMap{}
	if err := m.Get(ctx, request.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, wanted := source.Labels["mirror"]; !wanted || !source.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}}
	_, err := controllerutil.CreateOrPatch(ctx, m.Client, child, func() error {
		child.Data = map[string][]byte{}
		for key, value := range source.Data {
			child.Data[key] = []byte(value)
		}
		// It fails if the Secret belongs to another controller.
		return controllerutil.SetControllerReference(source, child, m.Scheme())
	})
	return ctrl.Result{}, err
}

func (m *mirror) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("mirror").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(m)
}

// The controller of docs/coming-from-the-tutorials.md is the one above.
func TestControllerOfTheDocument(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "docs", "coming-from-the-tutorials.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("manager_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(document), "```go\n")
	block, _, _ = strings.Cut(block, "```\n")
	if block == "" || !strings.Contains(string(source), block) {
		t.Errorf("the document shows another controller:\n%s", block)
	}
}

// It makes the Secret, makes it again after a deletion, and takes none over.
func TestSlowControllerOfTheDocumentRuns(t *testing.T) {
	g := NewWithT(t)
	ctx, stop := context.WithCancel(t.Context())
	plane, err := env.Start(context.WithoutCancel(ctx), env.Options{})
	if errors.Is(err, env.ErrExistingCluster) {
		t.Skip(err)
	}
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(plane.Stop()).To(Succeed()) }()
	mgr, err := ctrl.NewManager(plane.Config(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect((&mirror{mgr.GetClient()}).SetupWithManager(mgr)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		stop()
		g.Expect(<-done).To(Succeed())
	}()

	c, err := client.New(plane.Config(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	// The garbage collector removes the Secret if its owner does not exist.
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
	g.Expect(c.Create(ctx, other)).To(Succeed())
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign"}}
	g.Expect(controllerutil.SetControllerReference(other, foreign, c.Scheme())).To(Succeed())
	g.Expect(c.Create(ctx, foreign)).To(Succeed())
	sources := map[string]*corev1.ConfigMap{}
	for _, name := range []string{"foreign", "settings"} {
		sources[name] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{"mirror": ""}}, Data: map[string]string{"key": "value"}}
		g.Expect(c.Create(ctx, sources[name])).To(Succeed())
	}
	mirrored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}
	for range 2 {
		g.Eventually(func(g Gomega) {
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(mirrored), mirrored)).To(Succeed())
			g.Expect(mirrored).To(And(expect.BeControlledBy(sources["settings"]),
				HaveField("Data", HaveKeyWithValue("key", BeEquivalentTo("value")))))
		}).WithTimeout(30 * time.Second).Should(Succeed())
		g.Expect(c.Delete(ctx, mirrored)).To(Succeed())
	}
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	g.Expect(foreign.Data).To(BeEmpty())
}
