// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/leasehold"
)

// way is how a leader is lost.
type way string

const (
	kill  way = "kill"  // SIGKILL
	stop  way = "stop"  // SIGTERM: it stops gracefully
	pause way = "pause" // SIGSTOP until another replica leads, then SIGCONT: its view is stale
	cut   way = "cut"   // its requests to the API server get no response until another replica leads
)

var ways = []way{kill, stop, pause, cut}

const (
	// pace is the interval of the load, and hurry the interval while a leader handles SIGTERM: a
	// time between the last write of a leader and the first of the next cannot be shorter.
	pace  = 200 * time.Millisecond
	hurry = 20 * time.Millisecond
	// trailing is the time that the API server may take to log the last requests.
	trailing = 300 * time.Millisecond
	// busy is the smallest number of S3 requests in flight when the leader is paused.
	busy = 3
)

// trial loses the leader once and returns the handover. The old leader's process has ended and is
// not restarted.
func (p *pair) trial(ctx context.Context, w way) (_ handover, err error) {
	log := &recording{path: p.plane.AuditLog()}
	if log.at, err = record.End(log.path); err != nil {
		return handover{}, err
	}
	leader, err := p.settle(ctx)
	if err != nil {
		return handover{}, err
	}
	every := pace
	if w == stop {
		every = hurry
	}
	end := p.load(ctx, every)
	defer func() { err = errors.Join(err, end()) }()
	if leader, err = p.sometime(ctx, leader); err != nil {
		return handover{}, err
	}
	p.lost = leader
	l, err := p.lose(ctx, w, leader, log)
	if err != nil {
		return handover{}, err
	}
	if err := pass(ctx, trailing); err != nil {
		return handover{}, err
	}
	if _, err := log.read(); err != nil {
		return handover{}, err
	}
	p.proxyOf(leader).Forget()
	h, err := observe(log.events, l)
	if err == nil && p.calls != nil {
		h.calls = callsAfter(p.calls.Journal(), h.expired, h.next)
	}
	return h, err
}

// sometime waits for a random time, so that the losses are spread over the renewal interval, and returns the leader.
// With an S3 server it also waits for requests in flight.
func (p *pair) sometime(ctx context.Context, leader *env.Replica) (*env.Replica, error) {
	for {
		if err := pass(ctx, time.Duration(p.random.Int64N(int64(2*p.plan.retry)))); err != nil {
			return nil, err
		}
		if now, _, err := p.leader(ctx); err == nil && now == leader {
			break
		}
		// The leader ended by itself before the fault.
		var err error
		if leader, err = p.settle(ctx); err != nil {
			return nil, err
		}
	}
	if p.calls == nil {
		return leader, nil
	}
	defer p.calls.Forget()
	return leader, await(ctx, time.Millisecond, patience, "requests to S3", func(context.Context) error {
		if n := p.calls.Open(fault.Match{}); n < busy {
			return fmt.Errorf("%d are under way", n)
		}
		return nil
	})
}

// lose loses the leader, and returns when another one has written and the old process has ended.
func (p *pair) lose(ctx context.Context, w way, leader *env.Replica, log *recording) (loss, error) {
	l := loss{leader: leader.Name(), at: time.Now()}
	over, done := make(chan time.Time, 1), leader.Done()
	go func() {
		select {
		case <-done:
			over <- time.Now()
		case <-ctx.Done():
		}
	}()
	healed := func() error { return nil }
	switch w {
	case kill:
		leader.Kill()
	case stop:
		if err := leader.Signal(syscall.SIGTERM); err != nil {
			return l, err
		}
	case pause:
		healed = func() error {
			l.woken = time.Now()
			return leader.Resume()
		}
		if err := leader.Pause(ctx); err != nil {
			return l, errors.Join(err, healed())
		}
	case cut:
		proxy := p.proxyOf(leader)
		black := proxy.Inject(fault.Rule{Name: "cut off", Fault: fault.BlackHole{}})
		proxy.Sever(fault.Match{})
		healed = func() error {
			black.Heal()
			return nil
		}
	}
	err := await(ctx, poll, 2*p.plan.lease+patience/4, "a write of another leader",
		func(context.Context) error { return log.wrote(l.leader) })
	if err := errors.Join(err, healed()); err != nil {
		return l, err
	}
	// A paused replica tries to renew until the renew deadline, and one that was cut off already
	// has. If it continues to run, it is killed, so that all trials begin alike.
	select {
	case l.ended = <-over:
		return l, nil
	case <-ctx.Done():
	case <-time.After(p.plan.lease + p.plan.renew + patience/4):
	}
	leader.Kill()
	return l, errors.Join(errors.New("the old leader's process did not end and was killed"), ctx.Err())
}

// recording is the audit log of one trial.
type recording struct {
	path   string
	at     record.Bookmark
	events []auditv1.Event
}

// read reads the new events and returns them.
func (r *recording) read() (fresh []auditv1.Event, err error) {
	if fresh, r.at, err = record.ReadAuditLogFrom(r.path, r.at); err == nil {
		r.events = append(r.events, fresh...)
	}
	return fresh, err
}

// wrote returns an error until another Pod than the leader has sent a write that only leaders send.
func (r *recording) wrote(leader string) error {
	fresh, err := r.read()
	if err == nil && len(record.Writes(fresh, leasehold.User, record.Succeeded, record.Not(by(leader)),
		record.Not(aboutLease), record.Not(isEvent))) == 0 {
		return errNoSuccessor
	}
	return err
}
