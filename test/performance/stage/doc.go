// Package stage is where Leasehold is measured: the operator of one checkout of
// this repository, with its manifests and its programs, on a control plane of its
// own. What measures is always of this checkout; what is measured may be another
// one, so that two can be compared.
package stage
