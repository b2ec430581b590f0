// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// prematurePeriod bounds how long admission fails after the leader's clock is right again.
const prematurePeriod = time.Minute

var _ manager.LeaderElectionRunnable = premature{}

// premature empties the Secret while its certificate is not valid yet. A leader whose clock was ahead
// issued it, as before the first synchronization after a boot. No API server accepts it, but the rotator
// keeps it: it checks the validity in 90 days. The CA goes too, because the same leader may have issued it.
type premature struct {
	source *Source
	writer client.Writer
	clock  clock.PassiveClock
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: the rotator does not run on standbys.
func (premature) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (p premature) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("serving-certificate").WithValues("secret", p.source.secret.String())
	if !p.source.cache.WaitForCacheSync(ctx) {
		return nil // the replica stops
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		switch emptied, err := p.empty(ctx); {
		case err != nil:
			logger.Error(err, "checking whether the serving certificate is valid yet")
		case emptied:
			logger.Info("the serving certificate was not valid yet, so it and its CA are replaced")
		}
	}, prematurePeriod)
	return nil
}

// empty empties the Secret if its certificate is not valid yet. What cannot be parsed is left to the
// rotator. The cache has no CA, but an update that removes all data needs none.
func (p premature) empty(ctx context.Context) (emptied bool, err error) {
	secret := &corev1.Secret{}
	if err := client.IgnoreNotFound(p.source.cache.Get(ctx, p.source.secret, secret)); err != nil {
		return false, fmt.Errorf("reading Secret %s: %w", p.source.secret, err)
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || !pair.Leaf.NotBefore.After(p.clock.Now()) {
		return false, nil //nolint:nilerr // see above
	}
	secret.Data = nil
	if err := p.writer.Update(ctx, secret); err != nil {
		return false, fmt.Errorf("emptying Secret %s: %w", p.source.secret, err)
	}
	return true, nil
}
