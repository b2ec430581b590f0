// SPDX-License-Identifier: Apache-2.0

package mitigation

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Write is a kind of write to a child: "create", "update" or "delete".
type Write string

// Memory knows which of the controller's own writes the cache does not show yet. It is lost with the process.
type Memory interface {
	// Wait returns for how long a parent has to wait for the cache at most.
	Wait(parent types.NamespacedName) time.Duration
	// Remember calls write, which writes one child.
	Remember(parent types.NamespacedName, w Write, child client.Object, write func() error) error
	// Observe is called for each event after the cache has it.
	Observe(parent types.NamespacedName, w Write, child client.Object)
}

// expectationTimeout is when an event is no longer expected.
const expectationTimeout = 5 * time.Minute

type expectation struct {
	parent types.NamespacedName
	write  Write
}

// expectations counts the creates and deletes whose events have not arrived, as the ReplicaSet controller does. A write
// that failed is not expected.
type expectations struct {
	mu      sync.Mutex
	pending map[expectation]int
	since   map[expectation]time.Time
}

// NewExpectations returns a Memory of counts.
func NewExpectations() Memory {
	return &expectations{pending: map[expectation]int{}, since: map[expectation]time.Time{}}
}

func (e *expectations) Wait(parent types.NamespacedName) (left time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range []expectation{{parent, "create"}, {parent, "delete"}} {
		if e.pending[key] > 0 {
			left = max(left, expectationTimeout-time.Since(e.since[key]))
		}
	}
	return left
}

func (e *expectations) Remember(parent types.NamespacedName, w Write, _ client.Object, write func() error) error {
	if w == "update" {
		return write()
	}
	e.mu.Lock()
	key := expectation{parent, w}
	e.pending[key], e.since[key] = e.pending[key]+1, time.Now() // the event may arrive before the answer
	e.mu.Unlock()
	err := write()
	if err != nil {
		e.Observe(parent, w, nil)
	}
	return err
}

func (e *expectations) Observe(parent types.NamespacedName, w Write, _ client.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := expectation{parent, w}
	e.pending[key] = max(0, e.pending[key]-1)
}

// consistencyStore has the resource version of the last child written for each parent, and that of the cache, as
// controllers of Kubernetes 1.37 do. The answer to a delete has none.
type consistencyStore struct {
	mu      sync.Mutex
	written map[types.NamespacedName]string
	cached  string
}

// NewConsistencyStore returns a Memory of resource versions.
func NewConsistencyStore() Memory {
	return &consistencyStore{written: map[types.NamespacedName]string{}}
}

func (c *consistencyStore) Wait(parent types.NamespacedName) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if written, is := c.written[parent]; is && newer(written, c.cached) {
		return time.Second
	}
	return 0
}

func (c *consistencyStore) Remember(
	parent types.NamespacedName, w Write, child client.Object, write func() error,
) error {
	err := write()
	if err == nil && w != "delete" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.written[parent] = child.GetResourceVersion()
	}
	return err
}

func (c *consistencyStore) Observe(_ types.NamespacedName, _ Write, child client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if newer(child.GetResourceVersion(), c.cached) {
		c.cached = child.GetResourceVersion()
	}
}

func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}
