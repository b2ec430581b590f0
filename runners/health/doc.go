// Package health implements the checks behind /readyz and /healthz: whether the caches have synced,
// and whether the workers make progress.
package health
