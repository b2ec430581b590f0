// SPDX-License-Identifier: Apache-2.0

// Package schema contains the JSON Schemas of subject.yaml and of scenarios, with which editors complete
// and check them. They are generated from the Go types and their comments: `go test ./schema
// -update` rewrites them after a change.
//
// Rules that only the program can check, such as whether a file exists, are not part of the schemas.
package schema

import _ "embed"

// Subject is the schema of subject.yaml.
//
//go:embed subject.json
var Subject []byte

// Scenario is the schema of a scenario.
//
//go:embed scenario.json
var Scenario []byte
