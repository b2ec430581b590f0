package reconciler

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// suspicion is the state after a write that the API server rejected as a Conflict. The cache may be
// stale for the object or its children. Until the watches have caught up, a reconcile from the
// cache would repeat the write.
type suspicion struct {
	confirmed bool // the cache and the API server differed in the current reconcile
}

// Reader returns the reader for an object and its children. It is the cache. After a Conflict it
// reads live, until one reconcile has found every object in the cache at the version of the API
// server.
func (s *State) Reader(key client.ObjectKey, cache, live client.Reader) client.Reader {
	found, suspected := s.suspicions.Load(key)
	if !suspected {
		return cache
	}
	return staleCacheReader{Reader: cache, live: live, suspicion: found.(*suspicion)}
}

// staleCacheReader gets objects from the API server and compares them with the cache. It lists from
// the cache: a list only selects the objects that are then read one by one.
type staleCacheReader struct {
	client.Reader // the cache

	live      client.Reader
	suspicion *suspicion
}

// Get reads one object from the API server.
func (r staleCacheReader) Get(ctx context.Context, key client.ObjectKey, into client.Object,
	opts ...client.GetOption) error {
	cached, ok := into.DeepCopyObject().(client.Object)
	cacheErr := r.Reader.Get(ctx, key, cached, opts...)
	err := r.live.Get(ctx, key, into, opts...)
	if !ok || apierrors.IsNotFound(cacheErr) != apierrors.IsNotFound(err) ||
		cached.GetResourceVersion() != into.GetResourceVersion() {
		r.suspicion.confirmed = true
	}
	return err
}

// Suspected reports whether a Conflict ended the reconcile before, so Reader reads live.
func (s *State) Suspected(key client.ObjectKey) bool {
	_, suspected := s.suspicions.Load(key)
	return suspected
}

// suspectCache makes the next reconciles of the object read live.
func (s *State) suspectCache(key client.ObjectKey) { s.suspicions.Store(key, &suspicion{}) }

// reconciled ends a suspicion that the reconcile did not confirm. That reconcile has read at
// least the object itself past the cache.
func (s *State) reconciled(key client.ObjectKey) {
	found, suspected := s.suspicions.Load(key)
	if !suspected {
		return
	}
	if !found.(*suspicion).confirmed {
		s.suspicions.Delete(key)
		return
	}
	s.suspectCache(key) // the next reconcile compares again
}
