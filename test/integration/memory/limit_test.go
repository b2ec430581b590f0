package memory_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

// shippedLimit is the limit of config/manager/manager.yaml.
const shippedLimit = 256 << 20

var _ = Describe("At the shipped memory limit", Serial, Label("cgroup"), func() {
	BeforeEach(suite.NeedsProcesses)

	It("no replica is killed by many large views and 200 updates of them at once", func(ctx SpecContext) {
		groups := map[*env.Replica]cgroup{}
		suite.StopReplicas(ctx)
		DeferCleanup(suite.StartReplicas)
		for range 2 {
			group := newCgroup()
			r := suite.StartReplica(ctx, group.confine)
			groups[r] = group
			// Later it goes on without the limit, as all replicas have to run until the end.
			DeferCleanup(func(ctx SpecContext) {
				if r.Running() {
					_, err := r.Stop(ctx)
					Expect(err).NotTo(HaveOccurred())
				}
				Eventually(group.remove).WithTimeout(expect.Short).Should(Succeed())
			})
		}
		n := count("MEMORY_VIEWS", 100)
		var views []*v1beta1.MarkdownView
		create(ctx, n, func(int) client.Object { return view(operator.Unique("limit"), 4) })
		for range 20 {
			v := view(operator.Unique("flood"), 4)
			Expect(k8s.Create(ctx, v)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, v))).To(Succeed()) })
			views = append(views, v)
		}
		By("updating them, 200 requests at once")
		var group errgroup.Group
		for i := range 200 {
			group.Go(func() error { return update(ctx, views[i%len(views)], i) })
		}
		Expect(group.Wait()).To(Succeed())
		By("still serving the others")
		last := view(operator.Unique("limit"), 1)
		Expect(k8s.Create(ctx, last)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(k8s.Delete(ctx, last))).To(Succeed()) })
		Eventually(ctx, operator.Fetched(k8s, last)).WithTimeout(expect.Long).Should(expect.HaveObservedGeneration())
		for r, group := range groups {
			AddReportEntry(fmt.Sprintf("%s: most %d MiB of %d MiB", r.Name(), group.most()>>20, shippedLimit>>20))
			// A leader may end by itself: a flooded API server renews no Lease in time.
			Expect(group.kills()).To(BeZero(), "%s was killed; the end of its log:\n%s", r.Name(), r.LogTail(20))
		}
	}, SpecTimeout(20*time.Minute))
})

// update writes a view with other contents. A flood may have the API server give up on a
// webhook or on the request, and concurrent updates conflict; that is not what is measured.
func update(ctx context.Context, of *v1beta1.MarkdownView, i int) error {
	v := view(of.Name, 4)
	v.ResourceVersion = of.ResourceVersion
	v.Spec.Markdowns["extra.md"] = v1beta1.MarkdownText(strconv.Itoa(i))
	err := k8s.Update(ctx, v)
	if apierrors.IsConflict(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) {
		return nil
	}
	return err
}

// cgroup limits the memory of a process, by version 1 or 2 of control groups.
type cgroup struct{ dir, limit, usage, events string }

func newCgroup() cgroup {
	GinkgoHelper()
	for _, g := range []cgroup{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"},
		{"/sys/fs/cgroup", "memory.max", "memory.peak", "memory.events"},
	} {
		g.dir = filepath.Join(g.dir, operator.Unique("leasehold"))
		if os.Mkdir(g.dir, 0o755) != nil {
			continue
		}
		if os.WriteFile(filepath.Join(g.dir, g.limit), []byte(strconv.Itoa(shippedLimit)), 0o600) == nil {
			return g
		}
		Expect(g.remove()).To(Succeed())
	}
	Skip("needs the right to make control groups with a memory limit; run it as root on a machine that lets it")
	return cgroup{}
}

// confine has the replica begin its life in the group, if there still is one.
func (g cgroup) confine(o *env.ReplicaOptions) {
	GinkgoHelper()
	// Beside the binary, as the replica is started once more after the spec.
	start := filepath.Join(filepath.Dir(o.Binary), filepath.Base(g.dir))
	script := fmt.Sprintf("#!/bin/sh\n[ ! -d %[1]s ] || echo $$ > %[1]s/cgroup.procs\nexec %[2]s \"$@\"\n",
		g.dir, o.Binary)
	Expect(os.WriteFile(start, []byte(script), 0o700)).To(Succeed())
	o.Binary = start
}

func (g cgroup) most() int {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(g.dir, g.usage))
	Expect(err).NotTo(HaveOccurred())
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	Expect(err).NotTo(HaveOccurred())
	return n
}

// kills is how many processes were killed for the memory that the group took.
func (g cgroup) kills() int {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(g.dir, g.events))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(text)) {
		if count, found := strings.CutPrefix(line, "oom_kill "); found {
			n, err := strconv.Atoi(strings.TrimSpace(count))
			Expect(err).NotTo(HaveOccurred())
			return n
		}
	}
	Fail("there is no count of killed processes in " + g.events)
	return 0
}

func (g cgroup) remove() error { return os.Remove(g.dir) }
