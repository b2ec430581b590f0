// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/runners/election"
)

// An operator with controller-runtime's default times takes over on evidence. The Role of its
// ServiceAccount needs get, list, watch, create and update of Leases, and get, list and watch
// of Pods, in its own namespace.
func Example() {
	config := ctrl.GetConfigOrDie()
	lock, err := election.NewLock(config, election.Options{
		Lease:   types.NamespacedName{Namespace: os.Getenv("POD_NAMESPACE"), Name: "my-operator"},
		PodName: os.Getenv("POD_NAME"), PodUID: types.UID(os.Getenv("POD_UID")), Container: "manager",
		RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Clock: clock.RealClock{},
		Evidence: true, Lost: func(string) { os.Exit(1) },
	})
	if err != nil {
		os.Exit(1)
	}
	config.Wrap(lock.Term().GuardWrites)
	manager := ctrl.Options{LeaderElection: true, LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel: true}
	_, _ = ctrl.NewManager(config, manager)
}
