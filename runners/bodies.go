// SPDX-License-Identifier: Apache-2.0

package runners

import (
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// largeBody is the size in bytes above which a body takes room.
	largeBody = 64 << 10
	// bodyRoom is how many bytes of large bodies are decoded at once. It admits the largest body that
	// controller-runtime reads. Decoded it takes several times its size.
	bodyRoom = 7 << 20
	// bodyTimeout bounds how long a body takes room before it has arrived. The API server waits for 5 s.
	bodyTimeout = 10 * time.Second
)

// BoundBodies returns server with webhooks that bound what large requests need in memory at once.
// Users can send many large objects at a time. A request that gets no room waits until its client
// gives up; small requests never wait.
func BoundBodies(server webhook.Server, c clock.PassiveClock) webhook.Server {
	return &boundedBodies{Server: server, clock: c, room: semaphore.NewWeighted(bodyRoom)}
}

type boundedBodies struct {
	webhook.Server
	clock clock.PassiveClock
	room  *semaphore.Weighted
}

// Register implements webhook.Server.
func (b *boundedBodies) Register(path string, hook http.Handler) {
	b.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if size < 0 || size > bodyRoom {
			size = bodyRoom
		}
		if size > largeBody {
			if err := b.room.Acquire(r.Context(), size); err != nil {
				http.Error(w, "too many large requests at once", http.StatusServiceUnavailable)
				return
			}
			defer b.room.Release(size)
		}
		// Without this deadline a client that stops sending would keep its room. A recorder in a test
		// has no connection.
		_ = http.NewResponseController(w).SetReadDeadline(b.clock.Now().Add(bodyTimeout))
		hook.ServeHTTP(w, r)
	}))
}
