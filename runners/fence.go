// SPDX-License-Identifier: Apache-2.0

package runners

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// fencePeriod is the time between two tries.
	fencePeriod = 15 * time.Second
	// fencePolicy is the end of the name of the ValidatingAdmissionPolicy.
	fencePolicy = "fence.leasehold.dev'"
)

// FenceCheck tries, while another replica leads, whether the API server denies this one's writes, as
// config/fencing makes it. An overlay that changes the namespace can point the fence to a Lease that is
// not the operator's, and then it denies nothing. Every replica runs it, and it ends as soon as the
// fence is effective or the replica leads.
type FenceCheck struct {
	// Client sends its requests whether the replica leads or not, and has no cache.
	Client client.Client
	// Lease is that of the election.
	Lease client.ObjectKey
	// PodName is that of this replica, with which the identity of a holder begins.
	PodName  string
	Recorder events.EventRecorder
	Clock    clock.WithTicker

	effective *prometheus.GaugeVec
	permitted int // how many tries were, although another replica led
}

// Register registers the metric. It has no value until the check has a result.
func (f *FenceCheck) Register(r prometheus.Registerer) error {
	f.effective = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_fence_effective",
		Help: "Whether the API server denied (1) or allowed (0) a write of this replica while another replica was " +
			"the leader.",
	}, nil)
	if err := r.Register(f.effective); err != nil {
		return fmt.Errorf("registering the metric leasehold_fence_effective: %w", err)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f *FenceCheck) NeedLeaderElection() bool { return false }

// Start runs the check. It never returns an error: without the fence the operator still works.
func (f *FenceCheck) Start(ctx context.Context) error {
	ticker := f.Clock.NewTicker(fencePeriod)
	defer ticker.Stop()
	for {
		ended, err := f.try(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "checking the fence")
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// try sends a write that is not stored, and reports what the API server answers. It returns true if no other try
// is needed.
func (f *FenceCheck) try(ctx context.Context) (ended bool, err error) {
	lease, before, err := f.holder(ctx)
	if err != nil || before == "" {
		return false, err
	}
	if strings.HasPrefix(before, f.PodName+"_") {
		f.effective.Reset() // what it found as a standby may be repaired, and it does not try again
		return true, nil
	}
	err = f.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.Lease.Namespace, Name: "leasehold-fence-check"}}, client.DryRunAll)
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), fencePolicy) {
		f.effective.WithLabelValues().Set(1)
		log.FromContext(ctx).Info("the fence is effective: the API server denies writes of this replica while " +
			"another replica leads")
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("creating a ConfigMap in a dry run: %w", err)
	}
	// If the Lease was deleted or came to this replica meanwhile, the fence permits the write rightly.
	if _, after, err := f.holder(ctx); err != nil || after != before {
		return false, err
	}
	// An API server receives a new policy or Lease a moment later, so the first time is no proof.
	if f.permitted++; f.permitted > 1 {
		f.report(ctx, lease)
	}
	return false, nil
}

// holder returns the Lease and its holder; "" if there is none.
func (f *FenceCheck) holder(ctx context.Context) (*coordinationv1.Lease, string, error) {
	lease := &coordinationv1.Lease{}
	if err := client.IgnoreNotFound(f.Client.Get(ctx, f.Lease, lease)); err != nil {
		return nil, "", fmt.Errorf("reading the Lease: %w", err)
	}
	return lease, ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

func (f *FenceCheck) report(ctx context.Context, lease *coordinationv1.Lease) {
	f.effective.WithLabelValues().Set(0)
	what := fmt.Sprintf("the API server accepts writes of Pod %s, although the Pod does not hold the Lease %s: the "+
		"fence is not installed, or it names another Lease or ServiceAccount, for example after an overlay changed "+
		"the namespace (docs/operations.md)", f.PodName, f.Lease)
	log.FromContext(ctx).Info("the fence denies nothing", "reason", what)
	f.Recorder.Eventf(lease, nil, corev1.EventTypeWarning, "FenceIneffective", "CheckFence", "%s", what)
}
