// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
)

// process is a manager that runs in the process of the test.
type process struct {
	run    func(context.Context, *rest.Config) error
	cancel context.CancelFunc
	ended  chan error // the error that ended it before it was stopped
}

// Start runs a manager in the background until Restart replaces it or the test ends. run creates the manager with
// cfg, starts it, and returns when ctx is done. Restart calls run again. If run returns earlier, the test fails.
// Managers of controller-runtime need Controller.SkipNameValidation for a second start in one process.
func (a *API) Start(run func(ctx context.Context, cfg *rest.Config) error) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.manager != nil {
		a.t.Fatalf("a manager runs already; use one proxy for each")
	}
	a.manager = a.launch(run)
}

// Restart replaces the running manager with a new one, whose caches are empty. It first cuts the old manager off from
// the API server, so that the old manager cannot finish anything, as if its process had crashed.
func (a *API) Restart() {
	a.t.Helper()
	a.restart(func() {})
}

// restart calls between when no manager runs.
func (a *API) restart(between func()) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.manager == nil {
		a.t.Fatalf("no manager runs that could be restarted; call Start first")
	}
	cutOff := a.Inject(Rule{Name: "the manager is cut off", Fault: Cut{}})
	a.Sever(Match{})
	if err := a.manager.stop(); err != nil {
		a.t.Fatalf("before the restart: %v", err)
	}
	cutOff.Heal()
	between()
	a.manager = a.launch(a.manager.run)
}

func (a *API) launch(run func(context.Context, *rest.Config) error) *process {
	p := &process{run: run, ended: make(chan error, 1)}
	//nolint:forbidigo // a manager ends with a restart or the test, not with a context of a caller
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		err := run(ctx, rest.CopyConfig(a.config))
		switch {
		case ctx.Err() != nil: // errors of a manager that was told to stop, or cut off, are expected
			err = nil
		case err == nil:
			err = errors.New("the manager stopped before it was told to")
		default:
			err = fmt.Errorf("running the manager: %w", err)
		}
		p.ended <- err
	}()
	return p
}

// stop stops the manager and returns the error that ended it earlier.
func (p *process) stop() error {
	p.cancel()
	err := <-p.ended
	p.ended <- nil
	return err
}
