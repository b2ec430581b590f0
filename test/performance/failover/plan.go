package failover

import (
	"fmt"
	"math/rand/v2"
	"time"

	"leasehold.dev/test/performance/environment"
)

// way is how a leader is lost.
type way string

const (
	kill  way = "kill"  // SIGKILL: it is gone at once
	stop  way = "stop"  // SIGTERM: it is asked to go
	pause way = "pause" // SIGSTOP until another one leads, then SIGCONT: it does not know
	cut   way = "cut"   // nothing it asks of the API server is answered until another one leads
)

var ways = []way{kill, stop, pause, cut}

// setting are the times of an election. A Lease lasts whole seconds.
type setting struct {
	lease, renew, retry time.Duration
}

// The settings: those that ship, and those of the tests.
var (
	shipped = setting{lease: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}
	short   = setting{lease: 4 * time.Second, renew: 3 * time.Second, retry: 500 * time.Millisecond}
)

func (s setting) args() []string {
	return []string{
		fmt.Sprintf("--leader-elect-lease-duration=%s", s.lease),
		fmt.Sprintf("--leader-elect-renew-deadline=%s", s.renew),
		fmt.Sprintf("--leader-elect-retry-period=%s", s.retry),
	}
}

// subject is what is measured: ours, or what it is compared with.
type subject struct {
	name     string
	suffix   string // of its figures
	checkout environment.Checkout
}

// plan is how much is measured.
type plan struct {
	setting setting
	// trials are how often the leader is lost in each way.
	trials int
	// pairs are how many control planes each subject has.
	pairs int
	// tenants are how many are there, on each control plane.
	tenants int
	// pauses and peerPauses are how often the leader of ours and of the peer is paused while it
	// calls an S3 server.
	pauses, peerPauses int
	// idle is for how long requests are counted while nothing happens.
	idle time.Duration
}

// full takes about 20 minutes, most of which is waiting for Leases to expire.
func full() plan {
	return plan{setting: shipped, trials: 20, pairs: 2, tenants: 200, idle: time.Minute}
}

func quick() plan {
	return plan{setting: short, trials: 1, pairs: 1, tenants: 10, idle: 4 * time.Second}
}

// fullPauses takes about 10 minutes. The peer needs fewer pauses to show that there is
// something to count.
func fullPauses() plan {
	return plan{setting: short, pairs: 2, pauses: 100, peerPauses: 20}
}

func quickPauses() plan {
	return plan{setting: short, pairs: 1, pauses: 2, peerPauses: 1}
}

// losses are the ways of all trials of one subject, in an order of
// chance, so that what changes on the machine meanwhile meets them all.
func (p plan) losses(random *rand.Rand) []way {
	var all []way
	for range p.trials {
		all = append(all, ways...)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
