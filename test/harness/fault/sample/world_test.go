// SPDX-License-Identifier: Apache-2.0

package sample

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// assets is where this repository builds its control plane. KUBEBUILDER_ASSETS takes its place.
const assets = "../../../../bin/controlplane/current"

// soon is the timeout of what has to happen, and stays how long a state is observed.
const soon, stays = 20 * time.Second, 2 * time.Second

// cfg is the config of envtest, as suites made by kubebuilder have it.
var cfg *rest.Config

// TestMain starts envtest, unless the slow tests, which need it, are skipped.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.skip").Value.String() == "^TestSlow" {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	existing := false // whatever USE_EXISTING_CLUSTER says
	env := &envtest.Environment{UseExistingCluster: &existing}
	built, err := filepath.Abs(assets)
	if err == nil && os.Getenv("KUBEBUILDER_ASSETS") == "" {
		err = os.Setenv("KUBEBUILDER_ASSETS", built) // make sets it, too, and may leave it empty
	}
	if err == nil {
		cfg, err = env.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting envtest:", err)
		return 1
	}
	defer func() { _ = env.Stop() }()
	return m.Run()
}

// world is what the test does to a ConfigMap of its own, and the Secrets that the controller makes for it.
type world struct {
	t      *testing.T
	client client.Client
	name   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := client.New(cfg, client.Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	name := regexp.MustCompile(`[^a-z]+`).ReplaceAllString(strings.ToLower(t.Name()), "-")
	w := &world{t: t, client: c, name: name}
	// The manager of the next test would write the Secret of this ConfigMap when it starts, and meet that test's fault.
	t.Cleanup(func() {
		NewWithT(t).Expect(c.Delete(context.WithoutCancel(t.Context()), w.parent())).To(Succeed())
	})
	return w
}

func (w *world) parent() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: w.name}}
}

// apply sets the revision of the ConfigMap.
func (w *world) apply(revision string) {
	w.t.Helper()
	parent := w.parent()
	_, err := controllerutil.CreateOrUpdate(w.t.Context(), w.client, parent, func() error {
		parent.Labels, parent.Data = map[string]string{"sample": w.name}, map[string]string{"revision": revision}
		return nil
	})
	NewWithT(w.t).Expect(err).NotTo(HaveOccurred())
}

// converge applies the first revision and waits until the only Secret has it.
func (w *world) converge() {
	w.t.Helper()
	w.apply("1")
	NewWithT(w.t).Eventually(w.children, soon).Should(ConsistOf("1"))
}

// children returns the revisions of the Secrets.
func (w *world) children(g Gomega) []string {
	var list corev1.SecretList
	g.Expect(w.client.List(w.t.Context(), &list, client.InNamespace("default"),
		client.MatchingLabels{"sample": w.name})).To(Succeed())
	var all []string
	for _, s := range list.Items {
		all = append(all, string(s.Data["revision"]))
	}
	return slices.Sorted(slices.Values(all))
}

// The naive controller fails the test of the document in each of its four ways.
func TestSlowStaleness_FailsForTheNaiveController(t *testing.T) {
	g := NewWithT(t)
	run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSlowStaleness$", "-test.v")
	run.Env = append(os.Environ(), "SAMPLE=naive")
	output, err := run.CombinedOutput()
	g.Expect(err).To(HaveOccurred())
	for _, name := range []string{"own_write_not_seen", "answer_lost", "write_refused", "old_list"} {
		g.Expect(string(output)).To(ContainSubstring("--- FAIL: TestSlowStaleness/"+name), "%s", output)
	}
	g.Expect(string(output)).NotTo(ContainSubstring("never happened"), "each fault happened")
}

// The document shows the file that runs here, and the file is short.
func TestStaleness_IsShown(t *testing.T) {
	g := NewWithT(t)
	file, err := os.ReadFile("staleness_test.go")
	g.Expect(err).NotTo(HaveOccurred())
	page, err := os.ReadFile("../../docs/staleness.md")
	g.Expect(err).NotTo(HaveOccurred())
	_, body, _ := strings.Cut(strings.ReplaceAll(string(file), "TestSlow", "Test"), "\n\n") // without the licence
	g.Expect(string(page)).To(ContainSubstring("```go\n" + body + "```"))
	g.Expect(strings.Count(body, "\n")).To(BeNumerically("<=", 40))
}
