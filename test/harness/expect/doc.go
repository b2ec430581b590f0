// SPDX-License-Identifier: Apache-2.0

// Package expect contains Gomega matchers for the fields that every Kubernetes
// object has, functions that read an object or its events for Eventually, and named
// timeouts. The matchers take plain values, so each of them works with Expect and
// with Eventually.
package expect

import "time"

// How long a spec waits, depending on what it waits for. A spec that needs another
// duration is usually waiting for the wrong thing.
const (
	// Poll is the pause between two attempts.
	Poll = 50 * time.Millisecond
	// Quick is for effects inside the process.
	Quick = 2 * time.Second
	// Short is for one round trip through the API server and a watch.
	Short = 10 * time.Second
	// Medium is for a controller to reach the desired state.
	Medium = 30 * time.Second
	// Long is for work in which other controllers take part, such as namespace deletion and garbage
	// collection.
	Long = 2 * time.Minute
	// StaysFor is how long Consistently observes. Pair it with a proof that the subject was running
	// meanwhile.
	StaysFor = time.Second
)
