// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"os"
	"slices"
	"sync"
)

// fakeProcess is a process that runs until it is stopped.
type fakeProcess struct {
	process // nil: for what no test calls

	name           string
	ignoresSignals bool // it does not stop on a signal
	overrides      replicaOverrides
	// pauseErr is returned by a pause that was not confirmed.
	pauseErr error

	log string // the path
	// ready answers probes. Nil: it is always ready.
	ready func() error

	mu      sync.Mutex
	exits   chan int // the exit code of the life that is now
	started int
	killed  int
	actions []string // what was done to it beside
}

func newFakeProcess(name string) *fakeProcess {
	return &fakeProcess{name: name, log: os.DevNull, exits: make(chan int, 1), started: 1}
}

func (w *fakeProcess) Name() string { return w.name }

func (w *fakeProcess) LogTail(int) string { return "" }
func (w *fakeProcess) LogPath() string    { return w.log }

func (w *fakeProcess) Ready(context.Context) error {
	if w.ready == nil {
		return nil
	}
	return w.ready()
}

// Owns reports whether the address is the worker's name, as for its connections.
func (w *fakeProcess) Owns(address, _ string) bool { return address == w.name }

func (w *fakeProcess) Wait(ctx context.Context) (int, error) {
	select {
	case code := <-w.exits:
		return code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (w *fakeProcess) Restart() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	return nil
}

func (w *fakeProcess) Kill() {
	w.mu.Lock()
	w.killed++
	w.mu.Unlock()
	select {
	case w.exits <- -1:
	default: // a signal is pending
	}
}

// Signal ends it, as SIGTERM ends a process.
func (w *fakeProcess) Signal(s os.Signal) error {
	w.recordAction("asked by " + s.String())
	if !w.ignoresSignals {
		w.exits <- 0
	}
	return nil
}

func (w *fakeProcess) Reach(address string) error { w.recordAction("reaches " + address); return nil }

func (w *fakeProcess) Unreach(address string) { w.recordAction("does not reach " + address) }

func (w *fakeProcess) Close() error { w.recordAction("closed"); return nil }

func (w *fakeProcess) Pause(context.Context) error { w.recordAction("paused"); return w.pauseErr }

func (w *fakeProcess) Resume() error { w.recordAction("resumed"); return nil }

func (w *fakeProcess) recordAction(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.actions = append(w.actions, text)
}

func (w *fakeProcess) recordedActions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.actions)
}

func (w *fakeProcess) starts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started
}

func (w *fakeProcess) kills() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.killed
}
