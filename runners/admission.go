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
	// bodyRoom is how many bytes of large bodies are decoded at once: the largest body that controller-runtime reads.
	bodyRoom = 7 << 20
	// bodyTimeout bounds how long a body takes room before it has arrived. The API server waits for 5 s.
	bodyTimeout = 10 * time.Second
)

// Admission returns server with webhooks that bound what large requests need in memory at once, and close a
// connection with its first answer. Users can send many large objects at a time. A request that gets no room waits
// until its client gives up; small requests never wait.
func Admission(server webhook.Server, c clock.PassiveClock) webhook.Server {
	return &admission{Server: server, clock: c, room: semaphore.NewWeighted(bodyRoom)}
}

type admission struct {
	webhook.Server
	clock clock.PassiveClock
	room  *semaphore.Weighted
}

// Register implements webhook.Server.
func (a *admission) Register(path string, hook http.Handler) {
	a.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The API server does not repeat a call that it sends while a replica that stops closes an idle connection.
		w.Header().Set("Connection", "close")
		size := r.ContentLength
		if size < 0 || size > bodyRoom {
			size = bodyRoom
		}
		if size > largeBody {
			if err := a.room.Acquire(r.Context(), size); err != nil {
				http.Error(w, "too many large requests at once", http.StatusServiceUnavailable)
				return
			}
			defer a.room.Release(size)
		}
		// A client that stops sending would keep its room. A recorder in a test has no connection.
		_ = http.NewResponseController(w).SetReadDeadline(a.clock.Now().Add(bodyTimeout))
		hook.ServeHTTP(w, r)
	}))
}
