// SPDX-License-Identifier: Apache-2.0

// Package subject reads the description of an operator from a file: its installation, its contract,
// and the scenarios that test it. docs/subject.md lists all fields, and testdata/archiver has an example.
//
// Missing fields are derived from the manifests: the user of the replicas, the namespace of the Lease, the
// CustomResourceDefinitions, the API groups whose bodies are in the audit log, and the watched resources.
package subject
