package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// The faults of what a standby sees of the leader: P21, and the reconnects of P11.

// reportEnd has the Pod's status say that the leader's container terminated. The next start of
// the process corrects the status.
func (a *armed) reportEnd(ctx context.Context, r *replica, held *fault.Held) error {
	name, life, began := r.process.Name(), len(r.lived())-1, a.now()
	held.Release()
	identity, pod, err := a.leaderPod(ctx, r)
	if err != nil || pod == nil {
		return err
	}
	if err := a.fail(ctx, pod, corev1.PodRunning); err != nil {
		return err
	}
	next, err := a.successorTo(ctx, r, identity)
	if next == nil || err != nil {
		return err
	}
	if err := a.leaves(ctx, r, life); err != nil {
		return err
	}
	a.noted(history.Fault{
		Replica: name, Began: began, Ended: a.now(), FalseEnd: true,
		Detail: fmt.Sprintf("the status of its Pod said that its container had terminated, at %s, until replica %s led and it ended", held.Request, next.process.Name()),
	})
	return nil
}

// deletePod deletes the leader's Pod by force. Nobody may take that for the end of the process,
// nor what becomes of another Pod of that name. The API server accepts the process's token for
// some seconds more, so the process leads until then. After that it can do nothing, and another
// replica takes its place.
func (a *armed) deletePod(ctx context.Context, r *replica, held *fault.Held) (err error) {
	began := a.now()
	held.Release()
	identity, pod, err := a.leaderPod(ctx, r)
	if err != nil || pod == nil {
		return err
	}
	done := "its Pod was deleted by force"
	if err := a.prover.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("deleting Pod %s: %w", pod.Name, err)
	}
	// Also if no other replica leads: nothing is at rest before, nor can the next run begin.
	defer func() { err = errors.Join(err, a.prover.replace(context.WithoutCancel(ctx), r)) }()
	if a.plan.Variant == scenario.VariantReplaced {
		done += ", and another of its name failed"
		if pod, err = a.failedPod(ctx, pod); err != nil {
			return err
		}
		a.tidies = append(a.tidies, func() error {
			return client.IgnoreNotFound(a.prover.client.Delete(context.WithoutCancel(ctx), pod, client.GracePeriodSeconds(0)))
		})
	}
	next, err := a.successorTo(ctx, r, identity)
	if next == nil || err != nil {
		return err
	}
	a.noted(history.Fault{
		Replica: r.process.Name(), Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("%s, at %s, and replica %s led %s later", done, held.Request, next.process.Name(), next.seen.Sub(began).Round(time.Millisecond)),
	})
	return nil
}

// leaderPod returns the identity with which a replica holds the Lease, and its Pod, which is in the
// namespace of the Lease. It returns no Pod for a replica that does not lead. It reads both before
// the fault, because a standby may take over at once.
func (a *armed) leaderPod(ctx context.Context, r *replica) (identity string, pod *corev1.Pod, err error) {
	lease, err := a.prover.lease(ctx)
	if err != nil {
		return "", nil, err
	}
	identity = holder(lease)
	if last := a.prover.renewer(); identity == "" || last != nil && last != r {
		a.missing("replica %s did not lead when it began: %q did", r.process.Name(), identity)
		return identity, nil, nil
	}
	key, pod := client.ObjectKey{Namespace: a.prover.subject.Promises.Lease.Namespace, Name: r.process.Name()}, &corev1.Pod{}
	if err := a.prover.client.Get(ctx, key, pod); err != nil {
		return "", nil, fmt.Errorf("reading the Pod of replica %s: %w", r.process.Name(), err)
	}
	return identity, pod, nil
}

// failedPod makes another Pod of that name, which has failed.
func (a *armed) failedPod(ctx context.Context, like *corev1.Pod) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: like.Namespace, Name: like.Name, Labels: like.Labels},
		Spec:       *like.Spec.DeepCopy(),
	}
	if err := a.prover.client.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("making another Pod %s: %w", pod.Name, err)
	}
	return pod, a.fail(ctx, pod, corev1.PodFailed)
}

// fail has a Pod's status say that its containers terminated. The time is the next whole
// second: a report from before the holder's last renewal would be no evidence.
func (a *armed) fail(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	before := pod.DeepCopy()
	finished := metav1.NewTime(a.now().Truncate(time.Second).Add(time.Second))
	pod.Status.Phase, pod.Status.ContainerStatuses = phase, nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", FinishedAt: finished}},
		})
	}
	if err := a.prover.client.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("reporting the end of Pod %s: %w", pod.Name, err)
	}
	return nil
}

// reconnects is how often a second watches of the Lease are cut, and expire.
const reconnects = 2

// pauseUnwatched pauses the leader, and has all watches of the Lease begin anew again and again
// until another replica leads. Each list shows the version that everybody knows already.
func (a *armed) pauseUnwatched(ctx context.Context, r *replica, held *fault.Held) error {
	return a.whilePaused(ctx, r, held, func(time.Time) (string, error) {
		stop := a.cutLeaseWatches(ctx)
		next, err := a.successor(ctx, r)
		lists := stop()
		if err != nil {
			return "", err
		}
		if lists == 0 {
			a.missing("nobody listed the Lease anew while replica %s was paused", r.process.Name())
			return "", nil
		}
		found := "no other replica led"
		if next != nil {
			found = fmt.Sprintf("replica %s led", next.process.Name())
		}
		return fmt.Sprintf("paused at %s; watches of the Lease began anew %d times, and %s", held.Request, lists, found), nil
	})
}

// cutLeaseWatches has all watches of the Lease begin anew with a list, again and again until it
// is stopped. Then it returns how many have.
func (a *armed) cutLeaseWatches(ctx context.Context) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	lists := make(chan int, 1)
	leases := fault.Match{Methods: []string{http.MethodGet}, Path: path.Dir(a.prover.leasePath())}
	a.all.Go(func() {
		var all []*fault.Injection
		for ctx.Err() == nil {
			for _, r := range a.prover.present() {
				all = append(all, a.inject(r, leases, fault.NewSkip(0)))
			}
			a.wait(ctx, time.Second/reconnects)
		}
		n := 0
		for _, i := range all {
			i.Heal()
			n += i.Count()
		}
		lists <- n
	})
	return func() int {
		cancel()
		return <-lists
	}
}
