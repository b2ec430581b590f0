package failover

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"leasehold.dev/test/harness/tree"
	"leasehold.dev/test/performance/environment"
)

// stockPatch makes the operator one of controller-runtime's own election.
//
//go:embed stock.patch
var stockPatch []byte

// buildPeer builds the operator of a checkout without what it adds to the election of
// controller-runtime. The copy has to be removed.
func buildPeer(ctx context.Context, c environment.Checkout) (_ environment.Checkout, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "failover-peer-")
	if err != nil {
		return environment.Checkout{}, nil, fmt.Errorf("making a folder for the peer: %w", err)
	}
	remove = func() error { return os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making the peer: %w", err), os.RemoveAll(dir))
		}
	}()
	source, patch := filepath.Join(dir, "source"), filepath.Join(dir, "stock.patch")
	if err := os.WriteFile(patch, stockPatch, 0o600); err != nil {
		return environment.Checkout{}, nil, err
	}
	if err := tree.Plant(ctx, c.Dir, source, patch); err != nil {
		return environment.Checkout{}, nil, err
	}
	peer, err := environment.Build(ctx, source, filepath.Join(dir, "bin"))
	return peer, remove, err
}
