// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"net/url"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	"k8s.io/client-go/informers"
)

// inform runs an informer as operators do and returns its requests.
func (w *watching) inform(t *testing.T) func() []url.Values {
	t.Helper()
	factory := informers.NewSharedInformerFactory(namespaces(t, w.config, w.media), 0)
	factory.Core().V1().Namespaces().Informer()
	factory.Start(t.Context().Done()) // client-go 0.31 has no StartWithContext
	t.Cleanup(factory.Shutdown)
	return func() []url.Values {
		var all []url.Values
		for _, r := range w.proxy.Journal().Requests {
			all = append(all, r.Query)
		}
		return all
	}
}

func parameter(name, value string) types.GomegaMatcher {
	return WithTransform(func(q url.Values) string { return q.Get(name) }, Equal(value))
}

// What a stale start (stale-start) rests on: an informer begins with a watch that is consistent,
// for which no old answer would be legal. One internal error makes it take any version. Before client-go 0.35
// an informer begins with a list of any version, without an error.
func TestInformer_ListsAnyVersionAfterOneError(t *testing.T) {
	for name, fails := range map[string]bool{"as it is": false, "after an error": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := startWatching(t, runtime.ContentTypeJSON)
			if fails {
				failure, err := Refusal(http.StatusInternalServerError)
				g.Expect(err).NotTo(HaveOccurred())
				w.proxy.Inject(Rule{Match: Match{Query: map[string]string{"watch": "true"}, To: 1}, Fault: failure})
			}
			asked := w.inform(t)
			consistent := And(parameter("sendInitialEvents", "true"), parameter("resourceVersion", ""))
			if !features.FeatureGates().Enabled(features.WatchListClient) {
				anyVersion := And(parameter("watch", ""), parameter("resourceVersion", "0"))
				g.Eventually(asked, eventually).Should(ContainElement(anyVersion))
				g.Expect(asked()).NotTo(ContainElement(parameter("sendInitialEvents", "true")))
				return
			}
			if !fails {
				g.Eventually(asked, eventually).Should(HaveExactElements(consistent))
				g.Consistently(asked, moment).Should(HaveLen(1))
				return
			}
			g.Eventually(asked, eventually).Should(HaveExactElements(
				consistent,
				And(parameter("watch", ""), parameter("resourceVersion", "0")),
				And(parameter("watch", "true"), parameter("sendInitialEvents", ""), parameter("resourceVersion", "9")),
			))
		})
	}
}
