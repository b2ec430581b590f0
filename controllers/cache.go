// Package controllers joins what all controllers need of the manager.
package controllers

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"leasehold.dev/controllers/internal/slimcache"
	"leasehold.dev/controllers/markdownview"
	"leasehold.dev/controllers/tenant"
)

// CacheOptions bound what the cache of the manager keeps of an object, so that the memory
// of a replica does not depend on what users put into objects. The controllers are correct
// only with these options.
func CacheOptions() cache.Options {
	byObject := markdownview.CacheByObject()
	maps.Copy(byObject, tenant.CacheByObject())
	return cache.Options{DefaultTransform: slimcache.Trim, ByObject: byObject, NewInformer: slimcache.NewInformer}
}
