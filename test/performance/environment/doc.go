// Package environment runs the operator of one checkout of this repository, with its
// manifests and programs, on a control plane of its own. A measurement is always of this
// checkout; what it measures may be another one.
package environment
