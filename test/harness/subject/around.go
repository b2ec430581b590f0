// SPDX-License-Identifier: Apache-2.0

package subject

import "leasehold.dev/test/harness/env"

// ExternalSpec has the external systems that an operator uses.
type ExternalSpec struct {
	// S3 is an S3 server, which scenarios refer to by placeholders.
	S3 *S3Spec `json:"s3,omitempty"`
}

// S3Spec configures an operator's use of buckets.
type S3Spec struct {
	// OwnerTag is the tag of a bucket with the UID of the object that the operator created it for.
	// Empty means that it creates none.
	OwnerTag string `json:"ownerTag,omitempty"`
}

// NodeSpec configures the Pods.
type NodeSpec struct {
	// Jobs has the outcome of Pods of Jobs that do not succeed, by the image of their first
	// container: fails, or runs for ever.
	Jobs map[string]env.JobEnd `json:"jobs,omitempty"`
}
