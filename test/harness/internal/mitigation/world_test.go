// SPDX-License-Identifier: Apache-2.0

package mitigation

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"leasehold.dev/test/harness/fault"
)

// soon is the timeout of what has to happen, even on a busy machine.
const soon = 90 * time.Second

// world is one run: the controller with one mitigation in a namespace of its own, behind a proxy.
type world struct {
	*WithT
	t          *testing.T
	mitigation Mitigation
	api        *fault.API
	client     client.Client // past the proxy
	namespace  string
	pokes      chan event.GenericEvent
	life       int // of the manager that the test looks at, from 1

	mu   sync.Mutex
	runs int            // the lives so far
	done map[string]int // by what a reconcile did
}

func newWorld(t *testing.T, cfg *rest.Config, m Mitigation) *world {
	t.Helper()
	c, err := client.New(cfg, client.Options{})
	w := &world{WithT: NewWithT(t), t: t, mitigation: m, client: c, pokes: make(chan event.GenericEvent), life: 1,
		done: map[string]int{}}
	w.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cell-"}}
	w.Expect(c.Create(t.Context(), namespace)).To(Succeed())
	w.namespace = namespace.Name
	_, w.api = fault.Before(t, cfg)
	w.api.Start(func(ctx context.Context, cfg *rest.Config) error {
		w.mu.Lock()
		w.runs++
		life := w.runs
		w.mu.Unlock()
		return m.Run(ctx, cfg, w.namespace, w.pokes, func(parent *corev1.ConfigMap, what string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.done[fmt.Sprintf("%d %s %s", life, stateOf(parent), what)]++
		})
	})
	w.converge("first") // the watches are open
	return w
}

// stateOf identifies a parent with its data, such as "made 2 true".
func stateOf(parent *corev1.ConfigMap) string {
	return parent.Name + " " + parent.Data["revision"] + " " + parent.Data["wanted"]
}

// apply writes a parent.
func (w *world) apply(state string) {
	w.t.Helper()
	words := strings.Fields(state)
	parent := w.parent(words[0])
	_, err := controllerutil.CreateOrPatch(w.t.Context(), w.client, parent, func() error {
		parent.Data = map[string]string{"revision": words[1], "wanted": words[2]}
		return nil
	})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) parent(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
}

// count returns how many reconciles of the current manager that read a parent in a state did one of these.
func (w *world) count(state string, whats ...string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, what := range whats {
		n += w.done[fmt.Sprintf("%d %s %s", w.life, state, what)]
	}
	return n
}

// did waits until so many reconciles did one of these.
func (w *world) did(n int, state string, whats ...string) {
	w.t.Helper()
	w.Eventually(func() int { return w.count(state, whats...) }, soon).Should(BeNumerically(">=", n))
}

// decided waits for the end of so many reconciles. The last may wait for the cache, in a read or without one.
func (w *world) decided(n int, state string) {
	w.t.Helper()
	if !w.mitigation.ReadYourWrites {
		w.did(n, state, "ends", "fails", "waits")
		return
	}
	w.did(n, state, "begins")
	w.Consistently(func() int { return w.count(state, "ends", "fails") }, time.Second).
		Should(BeNumerically("<", n), "the read waits")
}

// converge creates a parent, and waits until a reconcile has found its Secret in the cache.
func (w *world) converge(name string) {
	w.t.Helper()
	w.apply(name + " 1 true")
	w.did(1, name+" 1 true", "read 1")
}

func (w *world) children(name string) []corev1.Secret {
	w.t.Helper()
	list, err := childrenOf(w.t.Context(), w.client, w.parent(name))
	w.Expect(err).NotTo(HaveOccurred())
	return list
}

// use marks the Secret of a parent as busy, as another client.
func (w *world) use(name string) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+busyLabel+`":""}}}`))
	w.Expect(w.client.Patch(w.t.Context(), &w.children(name)[0], patch)).To(Succeed())
}

// happened waits until a fault has taken effect.
func (w *world) happened(i *fault.Injection) {
	w.t.Helper()
	w.Eventually(i.Happened, soon).Should(BeTrue(), "the fault takes effect")
}

// held applies a state, and returns the first request for Secrets with a method that follows, on its way.
func (w *world) held(method, state string) *fault.HeldRequest {
	w.t.Helper()
	gate := fault.NewGate(fault.BeforeForward)
	w.api.Inject(fault.Rule{
		Match: fault.Match{Methods: []string{method}, Pattern: regexp.MustCompile(`/secrets(/|$)`), To: 1}, Fault: gate})
	w.apply(state)
	ctx, cancel := context.WithTimeout(w.t.Context(), soon)
	defer cancel()
	request, err := gate.Wait(ctx)
	w.Expect(err).NotTo(HaveOccurred())
	return request
}

// fallBehind cuts all watches, and lets the new ones lag.
func (w *world) fallBehind() *fault.Injection {
	w.t.Helper()
	watches := fault.Match{Methods: []string{http.MethodGet}, Query: map[string]string{"watch": ""}}
	lag := w.api.Inject(fault.Rule{Name: "the API server is behind", Match: watches, Fault: fault.Lag{}})
	before := len(w.api.Journal().Matching(watches))
	w.api.Sever(watches)
	w.Eventually(func() int { return len(w.api.Journal().Matching(watches)) }, soon).
		Should(BeNumerically(">=", before+2), "both kinds are watched again")
	return lag
}

// requests counts by verb the requests after an ID that the API server has carried out.
func (w *world) requests(after int) map[string]int {
	verbs := map[string]int{}
	for _, r := range w.api.Journal().Requests {
		switch {
		case r.ID <= after || !r.Committed() || r.Query.Has("watch"):
		case r.Method == http.MethodGet && strings.HasSuffix(r.Path, "/secrets"):
			verbs["LIST"]++
		default:
			verbs[r.Method]++
		}
	}
	return verbs
}

// measure runs one fault, heals it, waits until the controller works again, and counts.
func measure(w *world, run func(*world) *fault.Injection) cell {
	if f := run(w); f != nil {
		f.Heal()
	}
	w.converge("last")
	return cell{duplicates: max(0, len(w.children("made"))-1), deletions: w.requests(0)["DELETE"]}
}

// cost counts the requests of a create, an update and a delete without faults.
func cost(w *world) map[string]int {
	all := w.api.Journal().Requests
	w.converge("made")
	w.apply("made 2 true")
	w.did(1, "made 2 true", "read 1")
	w.Eventually(func() string { return string(w.children("made")[0].Data["revision"]) }, soon).Should(Equal("2"))
	w.apply("made 2 false")
	w.did(1, "made 2 false", "read 0")
	return w.requests(all[len(all)-1].ID)
}
