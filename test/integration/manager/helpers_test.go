package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/runners/election"
	"leasehold.dev/test/harness/expect"
)

// newNamespace makes a namespace for one spec. Nothing waits for its end: its
// name is used once.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "manager-"}}
	Expect(kube.Create(ctx, ns)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(kube.Delete(ctx, ns))).To(Succeed())
	})
	return ns.Name
}

// replica is one manager with a user of its own, so the audit log has its requests apart.
type replica struct {
	manager.Manager
	name, user string
	gate       *gate

	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Start, once done is closed
}

// newReplica builds a manager that sees one namespace. It has no servers and no
// election unless an option adds them.
func newReplica(name, namespace string, with ...func(*replica, *ctrl.Options)) *replica {
	GinkgoHelper()
	r := &replica{name: name, user: name + "." + namespace, gate: &gate{}}
	own := rest.CopyConfig(config)
	own.Impersonate = rest.ImpersonationConfig{UserName: r.user, Groups: []string{"system:masters"}}
	own.Wrap(r.gate.transport)
	graceful := expect.Short
	options := ctrl.Options{
		Metrics:                 server.Options{BindAddress: "0"},
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		GracefulShutdownTimeout: &graceful,
		Controller:              crconfig.Controller{SkipNameValidation: new(true)},
		Logger:                  GinkgoLogr.WithName(name),
	}
	for _, f := range with {
		f(r, &options)
	}
	if lock, ok := options.LeaderElectionResourceLockInterface.(*lazyLock); ok {
		l, err := election.NewLock(own, lock.options)
		Expect(err).NotTo(HaveOccurred())
		options.LeaderElectionResourceLockInterface = l
		defer func() { l.RecordWith(r.GetEventRecorder("election")) }()
	}
	var err error
	r.Manager, err = ctrl.NewManager(own, options)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// start runs the manager until the spec ends, if not stopped before. A spec that
// expects Start to fail reads err itself.
func (r *replica) start(ctx context.Context) *replica {
	// A spec ends its managers in order, and not all at once with its context.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		r.err = r.Start(ctx)
	}()
	DeferCleanup(func() {
		cancel()
		Eventually(r.done).WithTimeout(expect.Medium).Should(BeClosed())
	})
	return r
}

// stop stops the manager and waits until it has ended, without an error.
func (r *replica) stop() {
	GinkgoHelper()
	r.cancel()
	Eventually(r.done).WithTimeout(expect.Medium).Should(BeClosed())
	Expect(r.err).NotTo(HaveOccurred())
}

// reconciles adds a controller for ConfigMaps to the replica.
func (r *replica) reconciles(name string, f reconcile.Func) {
	GinkgoHelper()
	Expect(ctrl.NewControllerManagedBy(r).Named(name).For(&corev1.ConfigMap{}).Complete(f)).To(Succeed())
}

// gate fails chosen requests of one replica once it is cut.
type gate struct {
	mu   sync.Mutex
	cuts string // part of the path of the requests that fail; empty fails none
}

func (g *gate) cut(part string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cuts = part
}

func (g *gate) transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		g.mu.Lock()
		cuts := g.cuts != "" && strings.Contains(req.URL.Path, g.cuts)
		g.mu.Unlock()
		if cuts {
			return nil, fmt.Errorf("%s %s: cut off on purpose", req.Method, req.URL.Path)
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// beat is a runnable that shows that it runs.
type beat struct {
	everywhere bool
	count      atomic.Int64
}

// Start implements manager.Runnable.
func (b *beat) Start(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		b.count.Add(1)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (b *beat) NeedLeaderElection() bool { return !b.everywhere }

// expectBeating sees the runnable go on from here.
func expectBeating(b *beat) {
	GinkgoHelper()
	from := b.count.Load()
	Eventually(b.count.Load).Should(BeNumerically(">", from+2))
}

func newConfigMap(ctx context.Context, namespace, name string) *corev1.ConfigMap {
	GinkgoHelper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Expect(kube.Create(ctx, cm)).To(Succeed())
	return cm
}

// touch changes an object so that its watchers get an event.
func touch(ctx context.Context, o client.Object) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"touched":"%d"}}}`, time.Now().UnixNano())
	Expect(kube.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}
