// SPDX-License-Identifier: Apache-2.0

// Package external contains the systems outside the cluster that an operator may use. For
// a scenario it starts them, injects faults, changes them as another client, and lists
// what they contain. S3 is a real S3 server behind a fault.Proxy. docs/scenarios.md lists the values
// that scenarios refer to, and the changes that steps make.
package external
