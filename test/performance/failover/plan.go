package failover

import (
	"fmt"
	"math/rand/v2"
	"time"

	"leasehold.dev/test/performance/stage"
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

// expires says whether the Lease has to expire before another one can lead.
func (w way) expires() bool { return w != stop }

// setting are the times of an election. A Lease lasts whole seconds.
type setting struct {
	name                string
	lease, renew, retry time.Duration
}

// The settings: those that ship, and those of the tests.
var (
	stock = setting{name: "stock", lease: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}
	short = setting{name: "short", lease: 4 * time.Second, renew: 3 * time.Second, retry: 500 * time.Millisecond}
)

func (s setting) args() []string {
	return []string{
		fmt.Sprintf("--leader-elect-lease-duration=%s", s.lease),
		fmt.Sprintf("--leader-elect-renew-deadline=%s", s.renew),
		fmt.Sprintf("--leader-elect-retry-period=%s", s.retry),
	}
}

// poll is the longest time between two looks of a standby at the Lease: client-go's
// elector waits for one retry period and up to 1.2 more.
func (s setting) poll() time.Duration { return s.retry * 22 / 10 }

// subject is what is measured: ours, or what it is compared with.
type subject struct {
	name     string
	suffix   string // of its figures
	checkout stage.Checkout
}

// plan is how much is measured.
type plan struct {
	settings []setting
	// trials are how often the leader is lost in each way.
	trials int
	// pairs are how many control planes each subject has, by setting.
	pairs map[string]int
	// tenants are how many are there, on each control plane.
	tenants int
	// idle is for how long requests are counted while nothing happens.
	idle time.Duration
}

// full takes about twelve minutes: to lose a leader in each way once takes up to 110 s
// with the stock settings and 40 s with the short ones, in which all mostly wait.
func full() plan {
	return plan{settings: []setting{stock, short}, trials: 20, pairs: map[string]int{stock.name: 4, short.name: 2}, tenants: 200, idle: 30 * time.Second}
}

func quick() plan {
	return plan{settings: []setting{short}, trials: 1, pairs: map[string]int{short.name: 1}, tenants: 10, idle: 4 * time.Second}
}

// losses are the ways of all trials with one setting of one subject, in an order of
// chance, so that what changes on the machine meanwhile meets them all.
func (p plan) losses(random *rand.Rand) []way {
	var all []way
	for range p.trials {
		all = append(all, ways...)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
