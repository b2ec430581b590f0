package e2e

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"
)

// holderPodAnnotation is what a new leader writes on the Lease, and an old one does not.
const holderPodAnnotation = "leasehold.dev/holder-pod"

// version is one of the two programs that lead by turns.
type version string

const (
	polling  version = "polling"  // before standbys watched the Lease
	watching version = "watching" // this checkout
)

func (v version) image() string {
	if v == polling {
		return shared.settings.PollingImage
	}
	return shared.settings.Image
}

// handover is a takeover by the other version. A leader that crashes gives nothing back.
type handover struct {
	from, to version
	crashes  bool
	// stale: the Lease keeps the annotation of the leader before the last.
	stale bool
}

// handovers end with one from an old leader that has left the annotation of a crashed new one on
// the Lease.
var handovers = []handover{
	{from: polling, to: watching},
	{from: watching, to: polling},
	{from: polling, to: watching, crashes: true},
	{from: watching, to: polling, crashes: true},
	{from: polling, to: watching, crashes: true, stale: true},
}

func (h handover) String() string {
	switch {
	case h.stale:
		return fmt.Sprintf("%s leader crashes, %s leads next, beside the annotation of an earlier leader", h.from, h.to)
	case h.crashes:
		return fmt.Sprintf("%s leader crashes, %s leads next", h.from, h.to)
	}
	return fmt.Sprintf("%s leader is stopped, %s leads next", h.from, h.to)
}

func TestVersionSkew(t *testing.T) {
	if !shared.hasPollingImage {
		t.Skipf("there is no image %s, as the commit before standbys watched the Lease is not in the history of this clone: "+
			"git fetch --unshallow gets it", shared.settings.PollingImage)
	}
	s := &skew{f: &failing{}}
	f := features.New("an old and a new replica compete for the Lease").
		Setup(step(func(ctx context.Context, g *WithT) {
			g.Expect(shared.settle(ctx)).To(Succeed())
			s.f.began = time.Now()
			g.Expect(shared.scale(ctx, 0)).To(Succeed())
			await(ctx, g, shared.candidates, BeEmpty())
			s.leader = s.start(ctx, g, handovers[0].from)
			s.awaitLeader(ctx, g, s.leader)
		}))
	for _, h := range handovers {
		f = f.Assess(h.String(), step(func(ctx context.Context, g *WithT) { s.hand(ctx, g, h) }))
	}
	f = f.Assess("each write came from the Pod that held the Lease", step(s.judge)).
		Teardown(teardown(s.clear))
	testenv.Test(t, f.Feature())
}

// skew are the replicas of both versions, each a Pod of the Deployment's template. A container
// that has ended stays so: it is no candidate any more.
type skew struct {
	f      *failing
	pods   []client.Object
	leader *corev1.Pod
	past   []past
}

// past is a handover that took place.
type past struct {
	handover
	lost            time.Time
	leader, standby string
}

// start starts a replica and waits until it is ready.
func (s *skew) start(ctx context.Context, g *WithT, v version) *corev1.Pod {
	var d appsv1.Deployment
	g.Expect(shared.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: operatorName}, &d)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: unique(string(v)), Namespace: operatorNamespace, Labels: maps.Clone(d.Spec.Template.Labels),
		},
		Spec: *d.Spec.Template.Spec.DeepCopy(),
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers[0].Image = v.image()
	s.pods = append(s.pods, pod)
	g.Expect(shared.client.Create(ctx, pod)).To(Succeed())
	await(ctx, g, read(pod), Satisfy(podReady))
	return pod
}

// hand loses the leader, and waits until the other version leads and works.
func (s *skew) hand(ctx context.Context, g *WithT, h handover) {
	lease, err := shared.lease(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	_, annotated := lease.Annotations[holderPodAnnotation]
	g.Expect(annotated).To(Equal(h.stale || h.from == watching))
	standby := s.start(ctx, g, h.to)
	p := past{handover: h, leader: s.leader.Name, standby: standby.Name, lost: time.Now()}
	if h.crashes {
		g.Expect(shared.cluster.Signal(ctx, s.leader, operatorContainer, syscall.SIGKILL)).To(Succeed())
	} else {
		g.Expect(shared.client.Delete(ctx, s.leader)).To(Succeed())
	}
	s.awaitLeader(ctx, g, standby)
	s.leader, s.past = standby, append(s.past, p)

	tenant := newTenant(fmt.Sprintf("e2e-skew-%d", p.lost.UnixMilli()), "a")
	await(ctx, g, func() error { return shared.client.Create(ctx, tenant) }, Succeed())
	await(ctx, g, tenantReady(tenant), Succeed())
	remove(ctx, g, tenant)
	if h.to == watching {
		want := "released"
		if h.crashes {
			want = "expired"
		}
		g.Expect(s.reason(ctx, g)).To(Equal(want))
	}
}

// awaitLeader waits until the Pod holds the Lease, which names that Pod if the leader is new.
func (s *skew) awaitLeader(ctx context.Context, g *WithT, pod *corev1.Pod) {
	await(ctx, g, func(g Gomega) {
		lease, err := shared.lease(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(holderOf(lease)).To(Equal(pod.Name))
		named := lease.Annotations[holderPodAnnotation] == *lease.Spec.HolderIdentity+"/"+string(pod.UID)
		g.Expect(named).To(Equal(pod.Spec.Containers[0].Image == watching.image()))
	}, Succeed())
}

// reason is why the leader took the Lease, by its log.
func (s *skew) reason(ctx context.Context, g *WithT) string {
	lines, err := shared.logLines(ctx, s.leader.Name)
	g.Expect(err).NotTo(HaveOccurred())
	for _, l := range lines {
		if _, after, found := strings.Cut(l.text, `"reason":"`); found && strings.Contains(l.text, tookLease) {
			reason, _, _ := strings.Cut(after, `"`)
			return reason
		}
	}
	return ""
}

// judge reads the audit log. A Lease that was not released had expired before it was taken.
func (s *skew) judge(ctx context.Context, g *WithT) {
	events, leadership := s.f.leadership(ctx, g)
	g.Expect(texts(leadership.Strays)).To(BeEmpty())
	g.Expect(texts(leadership.Undecided)).To(BeEmpty())
	g.Expect(leadership.Judged).To(BeNumerically(">", len(handovers)))
	for _, p := range s.past {
		lost := p.lost
		if p.crashes {
			g.Expect(lapse(events, p.leader, p.standby, p.lost)).To(BeNumerically(">=", shortLease), p.String())
		} else {
			lost = letGo(leadership, p.lost, p.standby)
			g.Expect(lost).To(BeTemporally(">", p.lost), p.String())
		}
		for _, term := range leadership.Terms {
			if term.Holder == p.standby {
				shared.say("  %s after %s", p, term.At.Sub(lost))
				shared.report.addCrash(crashFinding{Mode: p.String(), Settings: shortSettings,
					NewHolder: term.At.Sub(lost).Seconds()})
				break
			}
		}
	}
}

// clear leaves the Deployment as it was.
func (s *skew) clear(ctx context.Context, g *WithT) {
	g.Expect(shared.scale(ctx, 2)).To(Succeed())
	remove(ctx, g, s.pods...)
	g.Expect(shared.settle(ctx)).To(Succeed())
}

// hasImage reports whether the local engine has an image.
func hasImage(ctx context.Context, name string) bool {
	return exec.CommandContext(ctx, "docker", "image", "inspect", name).Run() == nil
}
