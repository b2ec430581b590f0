package memory_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

// collected is when a replica that has nothing to do has collected its garbage for sure:
// Go does so every two minutes.
const collected = 3 * time.Minute

// buffers is the memory that a replica keeps for decoding after it has read large objects.
// It does not grow with their number.
const buffers = 12 << 20

// whileStarting bounds what a replica takes to read the objects as it starts: the garbage of
// a few large ones, of which a busy machine leaves more before it is collected. A replica
// that kept the contents of 60 views would take more than twice as much.
const whileStarting = 96 << 20

var _ = Describe("The memory of a replica", Serial, func() {
	BeforeEach(suite.NeedsProcesses)
	// The heap of a new process holds no garbage of an earlier spec.
	BeforeEach(func(ctx SpecContext) {
		suite.StopReplicas(ctx)
		suite.StartReplicas(ctx)
	})

	It("grows with the number of views, not with their contents", func(ctx SpecContext) {
		n := count("MEMORY_VIEWS", 60)
		before := live(ctx)
		at, started := figures("VmRSS"), figures("VmHWM")
		By(fmt.Sprintf("making %d views of 880 KiB", n))
		create(ctx, n, func(int) client.Object { return view(operator.Unique("large"), 4) })
		Eventually(func(g Gomega) {
			var views v1beta1.MarkdownViewList
			g.Expect(k8s.List(ctx, &views)).To(Succeed())
			g.Expect(views.Items).To(HaveLen(n))
			for i := range views.Items {
				g.Expect(views.Items[i].Status.ContentHash).NotTo(BeEmpty())
			}
		}).WithContext(ctx).WithTimeout(5 * time.Minute).WithPolling(5 * time.Second).Should(Succeed())
		heldAtMost(ctx, before, buffers+n*(16<<10))
		report("with the views", at)

		By("starting with them")
		startsWithin(ctx, started, whileStarting)
	}, SpecTimeout(40*time.Minute))

	It("grows with the number of foreign objects, not with what is in them", func(ctx SpecContext) {
		n := count("MEMORY_FOREIGN", 60)
		before := live(ctx)
		at, started := figures("VmRSS"), figures("VmHWM")
		namespace := operator.Unique("foreign")
		Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		By(fmt.Sprintf("making %d RoleBindings, ClusterRoles and Namespaces; of 60, 40 have 240 KiB each", n))
		create(ctx, n, func(i int) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: stuffed(i, namespace), RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}}
		})
		create(ctx, n, func(i int) client.Object { return &rbacv1.ClusterRole{ObjectMeta: stuffed(i, "")} })
		create(ctx, n, func(i int) client.Object { return &corev1.Namespace{ObjectMeta: stuffed(i, "")} })
		heldAtMost(ctx, before, buffers+3*n*(8<<10))
		report("with the foreign objects", at)

		By("starting with them")
		startsWithin(ctx, started, whileStarting+int64(3*n*(8<<10)))
	}, SpecTimeout(40*time.Minute))
})

var _ = Describe("The memory of a replica", Serial, func() {
	BeforeEach(suite.NeedsProcesses)

	It("does not grow with the subjects of role bindings of the reserved name", func(ctx SpecContext) {
		suite.StopReplicas(ctx)
		suite.StartReplicas(ctx)
		const n = 60
		before, at := live(ctx), figures("VmRSS")
		namespaces := make([]string, n)
		for i := range namespaces {
			namespaces[i] = operator.Unique("reserved")
		}
		create(ctx, n, func(i int) client.Object {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[i]}}
		})
		subjects := make([]rbacv1.Subject, 1000)
		for i := range subjects {
			subjects[i] = rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: text(1 << 10)}
		}
		By(fmt.Sprintf("making %d role bindings of 1 MiB", n))
		create(ctx, n, func(i int) client.Object {
			return &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[i], Name: "leasehold:tenant-admin"}, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}}
		})
		// Of each, 33 subjects of 1 KiB stay.
		heldAtMost(ctx, before, buffers+n*(48<<10))
		report("with the role bindings", at)
	}, SpecTimeout(20*time.Minute))
})

// stuffed is metadata of the largest size for 40 objects of every 60, so that a large number
// of them fits into etcd.
func stuffed(i int, namespace string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: operator.Unique("foreign"), Annotations: map[string]string{}}
	if i < 40 || i%60 == 0 {
		m.Annotations["example.com/a"] = text(240 << 10)
	}
	return m
}

func text(n int) string { return strings.Repeat("0123456789abcdef", n/16) }

// create makes n objects, a few at once, and has them deleted after the spec.
func create(ctx context.Context, n int, object func(int) client.Object) {
	GinkgoHelper()
	all := make([]client.Object, n)
	each := func(ctx context.Context, f func(context.Context, int) error) error {
		var group errgroup.Group
		group.SetLimit(4)
		for i := range n {
			group.Go(func() error { return f(ctx, i) })
		}
		return group.Wait()
	}
	DeferCleanup(func(ctx context.Context) {
		Expect(each(ctx, func(ctx context.Context, i int) error {
			return client.IgnoreNotFound(k8s.Delete(ctx, all[i]))
		})).To(Succeed())
	})
	Expect(each(ctx, func(ctx context.Context, i int) error {
		all[i] = object(i)
		if err := k8s.Create(ctx, all[i]); err != nil {
			return err
		}
		// Objects that the test holds must not count in this measurement.
		all[i].SetAnnotations(nil)
		if v, ok := all[i].(*v1beta1.MarkdownView); ok {
			v.Spec.Markdowns = nil
		}
		return nil
	})).To(Succeed())
}

// live is what each replica still referred to when it last collected garbage, in bytes: the
// next collection is due when the heap is twice that.
func live(ctx context.Context) map[string]int {
	GinkgoHelper()
	held := map[string]int{}
	for _, r := range suite.Replicas() {
		next, found := operator.SeriesOf(ctx, r, "go_memstats_next_gc_bytes")
		Expect(found).To(BeTrue())
		held[r.Name()] = int(next / 2)
	}
	return held
}

// heldAtMost waits until no replica holds more bytes than that above what it held before.
func heldAtMost(ctx context.Context, before map[string]int, bytes int) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for name, held := range live(ctx) {
			g.Expect(held-before[name]).To(BeNumerically("<", bytes), "%s holds %d MiB, and held %d MiB before", name, held>>20,
				before[name]>>20)
		}
	}).WithContext(ctx).WithTimeout(collected).WithPolling(time.Second).Should(Succeed())
}

// startsWithin restarts a replica as it ships, and starts another against an API server that
// streams no lists. Neither takes more than that above what replicas took to start without
// the objects.
func startsWithin(ctx context.Context, started map[string]int64, bytes int64) {
	GinkgoHelper()
	standby := suite.Replicas()[0]
	if standby == suite.Leader(ctx) {
		standby = suite.Replicas()[1]
	}
	_, err := standby.Stop(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(standby.Restart()).To(Succeed())
	Eventually(ctx, standby.Ready).WithTimeout(expect.Long).Should(Succeed())
	listing := suite.StartReplica(ctx,
		func(o *env.ReplicaOptions) { o.Env = append(o.Env, "KUBE_FEATURE_WatchListClient=false") })
	empty := started[standby.Name()]
	for how, r := range map[string]*env.Replica{"streaming": standby, "listing": listing} {
		peak := status(r, "VmHWM")
		AddReportEntry(fmt.Sprintf("%s at its start, %s: most %d MiB, without the objects %d MiB", r.Name(), how, peak>>20,
			empty>>20))
		Expect(peak-empty).To(BeNumerically("<", bytes), "%s, %s, took %d MiB to start, and %d MiB without the objects",
			r.Name(), how, peak>>20, empty>>20)
	}
}

// figures are what each replica has of the machine's memory now (VmRSS), or had at most
// since it started (VmHWM).
func figures(field string) map[string]int64 {
	GinkgoHelper()
	all := map[string]int64{}
	for _, r := range suite.Replicas() {
		all[r.Name()] = status(r, field)
	}
	return all
}

func report(when string, before map[string]int64) {
	GinkgoHelper()
	for name, resident := range figures("VmRSS") {
		AddReportEntry(fmt.Sprintf("%s %s: RSS %d MiB, before %d MiB", name, when, resident>>20, before[name]>>20))
	}
}

// status reads a figure of the replica's process, in bytes.
func status(r *env.Replica, field string) int64 {
	GinkgoHelper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Pid()))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			Expect(err).NotTo(HaveOccurred())
			return kilobytes << 10
		}
	}
	Fail("there is no " + field)
	return 0
}
