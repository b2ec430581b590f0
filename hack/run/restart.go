package main

import (
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// Pauses before a process is started again, as a kubelet has them: none the first time, then
// firstBackOff and twice as long each time up to maxBackOff. A process that ran for twice maxBackOff
// starts over.
const (
	firstBackOff = 10 * time.Second
	maxBackOff   = 5 * time.Minute
)

// restartable is an env.Replica.
type restartable interface {
	Name() string
	Pid() int
	Done() <-chan struct{}
	LogTail(lines int) string
	Restart() error
}

// keepReplicas starts replicas again that have ended.
func (e *environment) keepReplicas(ctx context.Context) error {
	for _, replica := range e.installation.Replicas() {
		e.kept.Go(func() { keepRunning(ctx, replica, e.out) })
	}
	return nil
}

// keepRunning starts a process again each time that it has ended, until ctx is done.
func keepRunning(ctx context.Context, r restartable, out *progress) {
	backOff := flowcontrol.NewBackOff(firstBackOff, maxBackOff)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.Done():
		}
		ended, pause := time.Now(), time.Duration(0)
		if backOff.IsInBackOffSince(r.Name(), ended) {
			pause = backOff.Get(r.Name())
		}
		if ctx.Err() == nil {
			out.printf("operator", "%s has ended by itself and restarts in %v; the end of its log:\n%s", r.Name(), pause,
				cut(r.LogTail(8)))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		backOff.Next(r.Name(), ended)
		if err := r.Restart(); err != nil {
			out.printf("failed", "%v", err)
			return
		}
		out.printf("operator", "%s runs again as process %d", r.Name(), r.Pid())
	}
}
