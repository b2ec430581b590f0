package env

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Each control plane that has been built beside the default one starts with the same
// flags and the same controllers, whatever its minor version.
func TestStartsEachVersionThatIsBuilt(t *testing.T) {
	g := NewWithT(t)
	assets, err := FindAssets("")
	g.Expect(err).NotTo(HaveOccurred())
	built, err := filepath.Glob(filepath.Join(filepath.Dir(assets), "v*"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, dir := range built {
		if dir == assets || checkAssets(dir) != nil || !hasFile(dir, controllerManager) {
			continue // the other tests use the first; $KUBEBUILDER_ASSETS may be beside other things
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			g := NewWithT(t)
			cp, err := Start(t.Context(), Options{AssetsDir: dir, Controllers: WorkloadControllers})
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { g.Expect(cp.Stop()).To(Succeed(), "each program still ran") })
			found, err := discovery.NewDiscoveryClientForConfig(cp.Config())
			g.Expect(err).NotTo(HaveOccurred())
			version, err := found.ServerVersion()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(filepath.Base(dir)).To(HavePrefix(version.GitVersion + "-"))
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "some"}}
			g.Expect(cp.client.Create(t.Context(), ns)).To(Succeed())
			g.Expect(cp.client.Delete(t.Context(), ns)).To(Succeed())
			g.Eventually(func() error { return cp.client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns) }, eventually).
				Should(Satisfy(apierrors.IsNotFound))
		})
	}
}
