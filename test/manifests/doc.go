// SPDX-License-Identifier: Apache-2.0

// Package manifests tests config/: it renders what users apply and checks permissions, workload,
// webhooks and samples. The package contains only tests.
package manifests
