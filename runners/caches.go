// SPDX-License-Identifier: Apache-2.0

package runners

import (
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// CachesSynced is ready when the cache holds the first complete list of every object's kind. It
// checks each kind separately, because WaitForCacheSync is true for a cache without informers.
//
// It never blocks. For a kind without an informer it creates the one that the controllers will use
// anyway.
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
