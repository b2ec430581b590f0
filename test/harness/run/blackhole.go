// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
)

// blackHolePrefix starts the names of values that are URLs of black holes.
const blackHolePrefix = "blackhole."

// blackHole accepts connections and never answers.
type blackHole struct {
	listener net.Listener
	all      sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func openBlackHole(ctx context.Context) (*blackHole, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a black hole: %w", err)
	}
	b := &blackHole{listener: listener}
	b.all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			b.mu.Lock()
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
		}
	})
	return b, nil
}

func (b *blackHole) url() string { return "http://" + b.listener.Addr().String() }

// close ends all connections. Later connections are refused.
func (b *blackHole) close() error {
	err := b.listener.Close()
	b.all.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.conns {
		err = errors.Join(err, conn.Close())
	}
	b.conns = nil
	return err
}

// blackHoles are the black holes of one run, which all replicas reach.
type blackHoles struct {
	prover *Prover
	all    []*blackHole
}

// open opens n more and returns their URLs.
func (h *blackHoles) open(ctx context.Context, n int) ([]string, error) {
	var urls []string
	for range n {
		b, err := openBlackHole(ctx)
		if err != nil {
			return nil, err
		}
		h.all = append(h.all, b)
		if err := h.prover.reach(b.url()); err != nil {
			return nil, err
		}
		urls = append(urls, b.url())
	}
	return urls, nil
}

// name opens one for each of the values with the prefix, and returns their URLs by value.
func (h *blackHoles) name(ctx context.Context, values []string) (map[string]string, error) {
	named := map[string]string{}
	for _, value := range values {
		if !strings.HasPrefix(value, blackHolePrefix) {
			continue
		}
		urls, err := h.open(ctx, 1)
		if err != nil {
			return nil, err
		}
		named[value] = urls[0]
	}
	return named, nil
}

func (h *blackHoles) close() error {
	var errs []error
	for _, b := range h.all {
		h.prover.unreach(b.url())
		errs = append(errs, b.close())
	}
	h.all = nil
	return errors.Join(errs...)
}
