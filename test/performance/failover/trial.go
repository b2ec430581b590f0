package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/leasehold"
	"leasehold.dev/test/performance/environment"
)

const (
	// pace is how often the operator has something to do, and hurry likewise while a
	// leader gets SIGTERM: between its last write and the next one's first is nothing
	// shorter than that.
	pace  = 200 * time.Millisecond
	hurry = 20 * time.Millisecond
	// trailing is how long after the end of all the API server may take to write it down.
	trailing = 300 * time.Millisecond
)

// trial loses the leader once and returns what came of it. All has ended then that
// the old leader could do; it is not started again.
func (p *pair) trial(ctx context.Context, w way) (_ handover, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("losing the leader of %s by %s: %w\n%s", p.subject.name, w, err, p.logs())
		}
	}()
	recording := &recording{path: p.environment.Plane.AuditLog()}
	if recording.at, err = record.End(recording.path); err != nil {
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
	end := p.load.begin(ctx, every)
	defer func() { err = errors.Join(err, end()) }()
	if leader, err = p.sometime(ctx, leader); err != nil {
		return handover{}, err
	}
	p.lost = leader
	l, err := p.lose(ctx, w, leader, recording)
	if err != nil {
		return handover{}, err
	}
	if err := p.pass(ctx, trailing); err != nil {
		return handover{}, err
	}
	if err := recording.read(); err != nil {
		return handover{}, err
	}
	p.proxyOf(leader).Forget()
	return observe(recording.events, l)
}

// sometime lets some time go by, so that the leader is not lost at the same moment
// between two renewals each time, and returns the leader.
func (p *pair) sometime(ctx context.Context, leader *env.Replica) (*env.Replica, error) {
	for {
		if err := p.pass(ctx, time.Duration(p.random.Int64N(int64(2*p.setting.retry)))); err != nil {
			return nil, err
		}
		now, err := p.environment.Leader(ctx)
		if err != nil || now == leader {
			return leader, err
		}
		// It gave up before anything was done to it.
		if leader, err = p.settle(ctx); err != nil {
			return nil, err
		}
	}
}

// lose loses the leader, and returns when another one has written and the old one's
// process has ended.
func (p *pair) lose(ctx context.Context, w way, leader *env.Replica, recording *recording) (loss, error) {
	l := loss{leader: leader.Name(), at: p.clock.Now()}
	over := p.ending(ctx, leader)
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
			l.woken = p.clock.Now()
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
	err := environment.Await(ctx, poll, 2*p.setting.lease+patience/4, "a write of another leader",
		func(context.Context) error {
			return recording.wrote(l.leader)
		})
	if err := errors.Join(err, healed()); err != nil {
		return l, err
	}
	// A paused replica tries to renew until the renew deadline, and one that was cut off
	// did that before.
	l.ended, err = awaitEnd(ctx, over, leader, p.setting.lease+p.setting.renew+patience/4)
	return l, err
}

// awaitEnd waits for the end of a leader's process, for as long as the limit. It kills a process
// that goes on, so that the next trial begins like others.
func awaitEnd(ctx context.Context, over <-chan time.Time, leader *env.Replica, limit time.Duration) (time.Time, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case ended := <-over:
		return ended, nil
	case <-limited.Done():
		leader.Kill()
		return time.Time{}, fmt.Errorf("waiting for the old leader's end, and killing it: %w", limited.Err())
	}
}

// ending returns when a replica's process ended.
func (p *pair) ending(ctx context.Context, r *env.Replica) <-chan time.Time {
	over, done := make(chan time.Time, 1), r.Done()
	go func() {
		select {
		case <-done:
			over <- p.clock.Now()
		case <-ctx.Done():
		}
	}()
	return over
}

// logs are the ends of the replicas' logs.
func (p *pair) logs() string {
	var all strings.Builder
	for _, r := range p.environment.Installation.Replicas() {
		fmt.Fprintf(&all, "the end of the log of %s, running: %t\n%s\n", r.Name(), r.Running(), r.LogTail(logLines))
	}
	return all.String()
}

// recording is what the audit log says of one trial.
type recording struct {
	path   string
	at     record.Bookmark
	events []auditv1.Event
	looked int // how many of them were looked at by wrote
}

func (t *recording) read() error {
	events, at, err := record.ReadAuditLogFrom(t.path, t.at)
	if err != nil {
		return err
	}
	t.at, t.events = at, append(t.events, events...)
	return nil
}

// wrote is an error until another Pod than the leader has written something that only
// a leader writes.
func (t *recording) wrote(leader string) error {
	if err := t.read(); err != nil {
		return err
	}
	fresh := t.events[t.looked:]
	t.looked = len(t.events)
	if len(record.Writes(fresh, leasehold.User, record.Succeeded, record.Not(by(leader)), record.Not(aboutLease),
		record.Not(isEvent))) == 0 {
		return errNoSuccessor
	}
	return nil
}
