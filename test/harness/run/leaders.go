package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

// The faults by which a leader is replaced and does not know: P10 to P12.

// head is how long the next leader has for its first write before the old one is
// let loose. Often there is nothing to write.
const head = time.Second

// blow is what is done about a request that is held at a point of its way.
type blow struct {
	point fault.Point
	do    func(*armed, context.Context, *replica, *fault.Held) error
}

// atTarget arms a plan with the blow of its variant.
func atTarget(variants map[string]blow) func(context.Context, *armed) error {
	return func(ctx context.Context, a *armed) error {
		a.strike(ctx, variants[a.plan.Variant])
		return nil
	}
}

// strike strikes the first request of the target that comes, at whichever replica that is.
func (a *armed) strike(ctx context.Context, b blow) {
	for _, r := range a.prover.present() {
		gate := fault.NewGate(b.point)
		a.inject(r, a.target(), gate)
		a.all.Go(func() {
			held, err := gate.Wait(ctx)
			if err != nil {
				return // the run is over and no such request came
			}
			defer held.Release()
			first := false
			a.once.Do(func() { first = true })
			if !first {
				return
			}
			defer a.lasts()()
			switch err := b.do(a, ctx, r, held); {
			case ctx.Err() != nil:
				a.missing("the run ended before it was over: %v", err)
			case err != nil:
				a.failed(err)
			}
		})
	}
}

// leading is who leads, and since when that is known.
type leading struct {
	*replica
	seen time.Time
}

// successor waits until another replica than old leads, and until that one has
// written or had the time to. Nil is that none came, which is noted.
func (a *armed) successor(ctx context.Context, old *replica) (*leading, error) {
	return a.successorTo(ctx, old, "")
}

// successorTo is successor where it is known by which identity the old leader held the Lease.
func (a *armed) successorTo(ctx context.Context, old *replica, before string) (*leading, error) {
	limited, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	next := &leading{}
	led := before != "" // old did, as far as is known, when it was looked at first
	err := wait.PollUntilContextCancel(limited, poll, true, func(ctx context.Context) (bool, error) {
		lease, err := a.prover.lease(ctx)
		if err != nil {
			return false, err
		}
		now := holder(lease)
		if before == "" {
			first := a.prover.renewer()
			before, led = now, first == nil || first == old
		}
		if !led || now == "" || now == before {
			return !led, nil
		}
		next.replica, next.seen = a.prover.renewer(), a.now()
		return next.replica != nil && next.replica != old, nil
	})
	switch {
	case err == nil && !led:
		a.missing("replica %s did not lead when it began: %s did", old.process.Name(), before)
		return nil, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("waiting for another leader: %w", err)
	case limited.Err() != nil:
		a.missing("no other replica than %s came to lead within %s", old.process.Name(), a.limit)
		return nil, nil //nolint:nilnil // nobody is no error
	case err != nil:
		return nil, err
	}
	return next, a.begun(ctx, *next)
}

// begun waits until a leader has written, or has had the time to.
func (a *armed) begun(ctx context.Context, l leading) error {
	limit := a.now().Add(head)
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		return a.wroteSince(l) || a.now().After(limit), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for what replica %s writes: %w", l.process.Name(), err)
	}
	return nil
}

// wroteSince reports whether a replica has changed anything but its Lease.
func (a *armed) wroteSince(l leading) bool {
	return slices.ContainsFunc(l.proxy.Journal().Mutating(), func(r fault.Request) bool {
		return r.Committed() && r.Received.After(l.seen) && r.Path != a.prover.leasePath()
	})
}

// leaves waits until the process that has led ends, which it does when it knows that
// it leads no longer, or for as long as a Lease lasts. Nothing is at rest before.
func (a *armed) leaves(ctx context.Context, r *replica, life int) error {
	term, err := a.term(ctx)
	if err != nil {
		return err
	}
	limit := a.now().Add(term)
	err = wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		return !r.lived()[life].Ended.IsZero() || a.now().After(limit), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of replica %s: %w", r.process.Name(), err)
	}
	return nil
}

// term is how long a leader keeps the Lease that it does not renew.
func (a *armed) term(ctx context.Context) (time.Duration, error) {
	lease, err := a.prover.lease(ctx)
	if err != nil {
		return 0, err
	}
	if lease.Spec.LeaseDurationSeconds == nil {
		return 0, fmt.Errorf("reading the Lease: it does not say how long it lasts")
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second, nil
}

// aboutLease are the requests by which a leader is elected.
func (a *armed) aboutLease() fault.Match { return fault.Match{Path: a.prover.leasePath()} }

// holdBack lets a request arrive when another replica leads. It is on its way all
// the time, whatever becomes of the process that has sent it.
func (a *armed) holdBack(ctx context.Context, r *replica, held *fault.Held) error {
	name, life := r.process.Name(), len(r.lived())-1
	cut := a.inject(r, a.aboutLease(), fault.BlackHole{})
	defer cut.Heal()
	next, err := a.successor(ctx, r)
	if next == nil || err != nil {
		return err
	}
	held.Release()
	late, err := a.done(ctx, r, held.Request.ID)
	switch {
	case err != nil:
		return err
	case !late.Forwarded.After(next.seen):
		a.missing("%s was forwarded before replica %s led", late, next.process.Name())
	case late.Status == 0:
		a.missing("%s was not answered: %s", late, late.Error)
	default:
		a.noted(history.Fault{
			Replica: name, Began: late.Received, Ended: late.Done,
			Detail: fmt.Sprintf("%s, held for %s, reached the API server when replica %s led, and was answered %d %s", late,
				late.Forwarded.Sub(late.Received).Round(time.Millisecond), next.process.Name(), late.Status, http.StatusText(late.Status)),
		})
	}
	cut.Heal()
	return a.leaves(ctx, r, life)
}

// done waits until the proxy has nothing more to do with a request.
func (a *armed) done(ctx context.Context, r *replica, id int) (fault.Request, error) {
	var request fault.Request
	err := wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		request = r.proxy.Journal().Request(id)
		return !request.Done.IsZero(), nil
	})
	if err != nil {
		return request, fmt.Errorf("waiting for the end of %s: %w", request, err)
	}
	return request, nil
}

// whilePaused does something while the replica is stopped, from when its request has been
// carried out. The answer waits for it, as all does that it has begun. What is returned is
// noted, unless it is empty, and the end of the replica is waited for.
func (a *armed) whilePaused(ctx context.Context, r *replica, held *fault.Held, do func(began time.Time) (detail string, err error)) error {
	name, life := r.process.Name(), len(r.lived())-1
	paused := func() (time.Time, string, error) {
		if err := r.process.Pause(ctx); err != nil {
			return time.Time{}, "", err
		}
		began := a.now()
		held.Release()
		detail, err := do(began)
		return began, detail, err
	}
	began, detail, err := paused()
	// Also if it was not seen to stop: it may do so yet, and would stay so.
	if err := errors.Join(err, r.process.Resume()); err != nil || detail == "" {
		return err
	}
	a.noted(history.Fault{Replica: name, Began: began, Ended: a.now(), Detail: detail})
	return a.leaves(ctx, r, life)
}

// pause stops the replica until another one leads.
func (a *armed) pause(ctx context.Context, r *replica, held *fault.Held) error {
	return a.whilePaused(ctx, r, held, func(began time.Time) (string, error) {
		next, err := a.successor(ctx, r)
		if next == nil || err != nil {
			return "", err
		}
		return fmt.Sprintf("paused at %s, and went on %s later, when replica %s led",
			held.Request, a.now().Sub(began).Round(time.Millisecond), next.process.Name()), nil
	})
}

// cutFromLease keeps the replica from its Lease until another one leads.
func (a *armed) cutFromLease(ctx context.Context, r *replica, held *fault.Held) error {
	began, life := a.now(), len(r.lived())-1
	cut := a.inject(r, a.aboutLease(), fault.BlackHole{})
	defer cut.Heal()
	held.Release()
	next, err := a.successor(ctx, r)
	if next == nil || err != nil {
		return err
	}
	if !cut.Happened() {
		a.missing("replica %s led, though %s had not tried to renew", next.process.Name(), r.process.Name())
		return nil
	}
	a.noted(history.Fault{
		Replica: r.process.Name(), Began: began, Ended: a.now(),
		Detail: fmt.Sprintf("cut off from the Lease at %s, until replica %s led", held.Request, next.process.Name()),
	})
	cut.Heal()
	return a.leaves(ctx, r, life)
}

// cutFromRest keeps the replica from everything but its Lease, for longer than that
// lasts: it leads all the time, and can do nothing.
func (a *armed) cutFromRest(ctx context.Context, r *replica, held *fault.Held) error {
	rest := fault.Match{NotPath: a.prover.leasePath()}
	term, err := a.term(ctx)
	if err != nil {
		return err
	}
	began := a.now()
	cut := a.inject(r, rest, fault.BlackHole{})
	defer cut.Heal()
	r.proxy.Sever(rest)
	held.Release()
	return a.starve(ctx, cut, term, history.Fault{
		Replica: r.process.Name(), Began: began, Detail: fmt.Sprintf("cut off at %s from all but the Lease,", held.Request),
	})
}

// starve keeps a replica cut off until a Lease of this length is over for certain. The
// fault, whose detail goes on with how many requests it has met, is noted if there was
// any.
func (a *armed) starve(ctx context.Context, cut *fault.Injection, term time.Duration, f history.Fault) error {
	if err := a.outlast(ctx, term); err != nil {
		return err
	}
	if !cut.Happened() {
		a.missing("replica %s asked for nothing in %s", f.Replica, term)
		return nil
	}
	f.Ended, f.Detail = a.now(), fmt.Sprintf("%s %d requests", f.Detail, cut.Count())
	a.noted(f)
	return nil
}

// outlast waits until a Lease of this length, that is not renewed from now on, is
// over for certain.
func (a *armed) outlast(ctx context.Context, term time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of a Lease: %w", ctx.Err())
	case <-a.prover.clock.After(term + head):
		return nil
	}
}
