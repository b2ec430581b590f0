// SPDX-License-Identifier: Apache-2.0

// Package docs contains the pages that the command prove prints.
package docs

import _ "embed"

// Faults is the page about faults.
//
//go:embed faults.md
var Faults []byte

// Invariants is the page about invariants.
//
//go:embed invariants.md
var Invariants []byte
