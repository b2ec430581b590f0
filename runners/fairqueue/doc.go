// Package fairqueue provides a work queue in which the backlog of one namespace does not delay the
// requests of another. Every controller of the manager uses it.
package fairqueue
