package markdownview_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

// noisyViews is how many views one user updates without a pause. It is scaled down;
// NOISY_VIEWS=1000 is the full size.
func noisyViews() int {
	GinkgoHelper()
	text, set := os.LookupEnv("NOISY_VIEWS")
	if !set {
		return 150
	}
	n, err := strconv.Atoi(text)
	Expect(err).NotTo(HaveOccurred())
	return n
}

// queued is how many views wait in the leader's queue.
func queued(ctx context.Context) (depth float64) {
	for line := range strings.Lines(operator.MetricsOf(ctx, suite.Leader(ctx))) {
		if strings.HasPrefix(line, `workqueue_depth{controller="markdownview"`) {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			Expect(err).NotTo(HaveOccurred())
			depth += value
		}
	}
	return depth
}

var _ = Describe("A user who updates many views without a pause", func() {
	It("does not delay a view of another namespace by the backlog", Serial, func(ctx SpecContext) {
		suite.NeedsProcesses()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("noisy")}}
		Expect(k8s.Create(ctx, ns)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, ns))).To(Succeed()) })
		n := noisyViews()
		views := make([]*v1beta1.MarkdownView, n)
		for i := range views {
			views[i] = build(fmt.Sprintf("noisy-%d", i), in(ns.Name), replicas(1))
			Expect(k8s.Create(ctx, views[i])).To(Succeed())
		}
		updating, stop := context.WithCancel(ctx)
		var writers sync.WaitGroup
		const parallel = 16
		for w := range parallel {
			writers.Go(func() {
				for turn := 0; updating.Err() == nil; turn++ {
					for i := w; i < n && updating.Err() == nil; i += parallel {
						patch := fmt.Appendf(nil, `{"spec":{"markdowns":{"one.md":"# Turn %d\n"}}}`, turn)
						// A refused update is as good: the next one follows at once.
						_ = k8s.Patch(updating, views[i].DeepCopy(), client.RawPatch("application/merge-patch+json", patch))
					}
				}
			})
		}
		defer writers.Wait()
		defer stop()

		const backlog = 50
		Eventually(ctx, queued).WithTimeout(expect.Long).Should(BeNumerically(">=", backlog), "views that wait")
		position, began := suite.AuditPosition(), time.Now()
		quiet := given(ctx, build(unique("quiet")))
		children := func() []string {
			return slices.DeleteFunc(suite.Writes(position),
				func(w string) bool { return !strings.Contains(w, " configmaps/ ") })
		}
		isQuiet := func(w string) bool { return strings.HasSuffix(w, " markdowns-"+quiet.Name) }
		Eventually(func() bool { return slices.ContainsFunc(children(), isQuiet) }).WithTimeout(expect.Long).Should(BeTrue())
		before := slices.IndexFunc(children(), isQuiet)
		AddReportEntry("figures", fmt.Sprintf("%d views: another one was served after %d of them, within %s",
			n, before, time.Since(began).Round(time.Millisecond)))
		// Four are with workers, and each may be followed by one before its namespace has
		// had its turn.
		Expect(before).To(BeNumerically("<", backlog/2), "views that were served first")
		By("seeing that the others were worked on all the time")
		from := len(children())
		Eventually(func() int { return len(children()) }).WithTimeout(expect.Medium).
			Should(BeNumerically(">", from+backlog/2))
	}, SpecTimeout(5*time.Minute))
})
