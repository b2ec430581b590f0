// SPDX-License-Identifier: Apache-2.0

// Package gitops tests that the tools which apply manifests from a repository agree with the
// operator: Flux's own library applies config/ and the samples on a real control plane, and Argo CD's
// health check of docs/operations.md judges their statuses. The package contains only tests. It is a separate
// module because the tests import Flux and a Lua interpreter.
package gitops
