// Package health holds the checks behind /readyz and /healthz: whether the
// caches have what the controllers watch, and whether the workers get on.
package health
