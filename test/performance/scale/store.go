package scale

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// store stands for S3 services that take no time. It answers each HEAD of a bucket
// with 200 at once, on several endpoints, and notes when it was asked. No real server
// would do here: it would be the one that is measured.
type store struct {
	clock     clock.PassiveClock
	servers   []*http.Server
	endpoints []string

	mu       sync.Mutex
	arrivals []arrival
}

// arrival is when a bucket was asked for.
type arrival struct {
	bucket string
	at     time.Time
}

func startStore(ctx context.Context, c clock.PassiveClock, endpoints int) (*store, error) {
	s := &store{clock: c}
	for range endpoints {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listening for probes: %w", err), s.stop())
		}
		server := &http.Server{Handler: s, ReadHeaderTimeout: patience}
		s.servers = append(s.servers, server)
		s.endpoints = append(s.endpoints, "http://"+listener.Addr().String())
		// It ends when it is closed, and with no other error that anybody could mend.
		go func() { _ = server.Serve(listener) }()
	}
	return s, nil
}

func (s *store) stop() error {
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}

// ServeHTTP implements http.Handler.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := s.clock.Now()
	if r.Method != http.MethodHead {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals = append(s.arrivals, arrival{strings.Trim(r.URL.Path, "/"), at})
}

// count is how often it was asked in all.
func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrivals)
}

// from are the arrivals from the i-th on, in their order.
func (s *store) from(i int) []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.arrivals[i:]...)
}
