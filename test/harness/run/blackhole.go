// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// blackHoles are URLs of one attack that accept connections and never answer. All replicas reach them.
type blackHoles struct {
	prover *Prover
	// Nothing takes a connection from all: the kernel accepts it, and resets it when they are closed.
	all []net.Listener
}

// open opens n more and returns their URLs.
func (h *blackHoles) open(ctx context.Context, n int) ([]string, error) {
	var urls []string
	for range n {
		hole, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("opening a black hole: %w", err)
		}
		h.all = append(h.all, hole)
		if err := h.prover.reach(hole.Addr().String()); err != nil {
			return nil, err
		}
		urls = append(urls, "http://"+hole.Addr().String())
	}
	return urls, nil
}

func (h *blackHoles) close() error {
	var errs []error
	for _, hole := range h.all {
		h.prover.unreach(hole.Addr().String())
		errs = append(errs, hole.Close())
	}
	h.all = nil
	return errors.Join(errs...)
}
