// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/program"
)

// page is a Pod that shows the files of the ConfigMap content.
func page(t *testing.T, namespace, name, image string) *corev1.Pod {
	t.Helper()
	return fromYAML[*corev1.Pod](t, fmt.Sprintf(`
metadata: {namespace: %s, name: %s}
spec:
  containers:
  - name: page
    image: %s
    readinessProbe: {httpGet: {path: /text, port: 80}}
    volumeMounts: [{name: content, mountPath: /content}]
  volumes: [{name: content, configMap: {name: content}}]
`, namespace, name, image))
}

func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func TestNodeRunsPodsAsProcesses(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)
	var urls, failures sync.Map // by the names of Pods
	url := func(pod string) func() any {
		return func() any {
			found, _ := urls.Load(pod)
			return found
		}
	}
	failure := func(pod string) func() error {
		return func() error {
			found, _ := failures.Load(pod)
			err, _ := found.(error)
			return err
		}
	}
	image := unique("page")
	// One script for each role of the test binary: a Program has no environment.
	script := func(command string) string {
		path := t.TempDir() + "/program"
		g.Expect(os.WriteFile(path, []byte("#!/bin/sh\n"+command+"\n"), 0o700)).To(Succeed())
		return path
	}
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	arguments := func(port int, volumes map[string]string) []string {
		return []string{fmt.Sprintf("127.0.0.1:%d", port), volumes["/content"]}
	}
	node, err := shared.StartNode(ctx, NodeOptions{
		Images: map[string]Program{
			image: {Binary: script("exec env " + roleVariable + "=" + rolePage + " " + program.Quote(self) + ` "$@"`),
				Args: arguments},
			image + "-bad": {Binary: script("echo no such luck; exit 7"), Args: arguments},
		},
		Serving: func(pod types.NamespacedName, url string) { urls.Store(pod.Name, url) },
		Failed:  func(pod types.NamespacedName, err error) { failures.Store(pod.Name, err) },
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(node.Stop)

	content := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "content"},
		Data: map[string]string{"text": "hello"}}
	g.Expect(shared.client.Create(ctx, content)).To(Succeed())
	good, bad, other := page(t, ns, "good", image), page(t, ns, "bad", image+"-bad"), page(t, ns, "other", "elsewhere")
	for _, pod := range []*corev1.Pod{good, bad, other} {
		// The namespace's ServiceAccount may take a moment.
		g.Eventually(func() error { return shared.client.Create(ctx, pod) }, eventually).Should(Succeed())
	}

	g.Eventually(url("good"), eventually).ShouldNot(BeNil())
	text := fmt.Sprint(url("good")(), "/text")
	g.Expect(fetch(ctx, text)).To(Equal("hello"))
	g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(good), good)).To(Succeed())
	g.Expect(good.Status.Phase).To(Equal(corev1.PodRunning))
	g.Expect(good.Status.Conditions).
		To(ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue))))

	g.Eventually(failure("bad"), eventually).Should(MatchError(ContainSubstring("no such luck")))
	g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(bad), bad)).To(Succeed())
	g.Expect(bad.Status.Phase).To(Equal(corev1.PodFailed))
	g.Expect(url("bad")()).To(BeNil())

	t.Log("a Pod of an image that nothing stands in for is left alone")
	g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
	g.Expect(other.Status.Conditions).To(BeEmpty())

	t.Log("the program goes with its Pod, and the others with the Node")
	g.Expect(shared.client.Delete(ctx, good)).To(Succeed())
	g.Eventually(func() error { _, err := fetch(ctx, text); return err }, eventually).Should(HaveOccurred())
	second := page(t, ns, "second", image)
	g.Expect(shared.client.Create(ctx, second)).To(Succeed())
	g.Eventually(url("second"), eventually).ShouldNot(BeNil())
	node.Stop()
	g.Expect(fetch(ctx, fmt.Sprint(url("second")(), "/text"))).Error().To(HaveOccurred())
}
