package health

import (
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// CachesSynced is ready when the cache holds the first full list of every
// object's kind. It asks for each kind by name, because WaitForCacheSync is true
// of a cache in which nothing has been asked for yet.
//
// It never waits. A kind nobody has watched so far gets its informer here, which
// is what the controllers are about to ask for anyway.
func CachesSynced(c cache.Cache, objects []client.Object) healthz.Checker {
	return func(req *http.Request) error {
		for _, object := range objects {
			informer, err := c.GetInformer(req.Context(), object, cache.BlockUntilSynced(false))
			if err != nil {
				return fmt.Errorf("getting the informer of %T: %w", object, err)
			}
			if !informer.HasSynced() {
				return fmt.Errorf("the cache of %T has not synced yet", object)
			}
		}
		return nil
	}
}
