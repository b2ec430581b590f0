package pass

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// doubt is that a write was refused as a Conflict: what had been read of the object
// and its children may have been out of date, and may be for a while. To go on
// believing it means to send the same write again and again, until the watches
// have caught up.
type doubt struct {
	founded bool // the cache and the API server differed in the pass that is made
}

// Reader is what the object with that key and its children are read with. It is the
// cache, and past it after a Conflict, until a pass has found in the cache all that
// it read as the API server has it.
func (m *Memory) Reader(key client.ObjectKey, cache, live client.Reader) client.Reader {
	d, doubted := m.doubts.Load(key)
	if !doubted {
		return cache
	}
	return doubting{Reader: cache, live: live, doubt: d.(*doubt)}
}

// doubting gets from the API server and compares with the cache. Lists come from the
// cache: they are of what may be looked at later.
type doubting struct {
	client.Reader // the cache

	live  client.Reader
	doubt *doubt
}

// Get reads one object from the API server.
func (d doubting) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	cached, ok := into.DeepCopyObject().(client.Object)
	cacheErr := d.Reader.Get(ctx, key, cached, opts...)
	err := d.live.Get(ctx, key, into, opts...)
	if !ok || apierrors.IsNotFound(cacheErr) != apierrors.IsNotFound(err) || cached.GetResourceVersion() != into.GetResourceVersion() {
		d.doubt.founded = true
	}
	return err
}

// doubted begins a doubt about what the cache has of the object and its children.
func (m *Memory) doubted(key client.ObjectKey) { m.doubts.Store(key, &doubt{}) }

// passed ends a doubt that the pass which has just been made, and which read at least the object
// itself under it, did not find founded.
func (m *Memory) passed(key client.ObjectKey) {
	d, doubted := m.doubts.Load(key)
	if !doubted {
		return
	}
	if !d.(*doubt).founded {
		m.doubts.Delete(key)
		return
	}
	m.doubted(key) // the next pass looks anew
}
