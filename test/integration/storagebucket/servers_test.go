// SPDX-License-Identifier: Apache-2.0

package storagebucket_test

import . "github.com/onsi/ginkgo/v2"

// decidedByService labels the specs whose result depends on the answers of the service. `make services`
// runs them with another server than versitygw.
var decidedByService = Label("service")

// answers has what servers do in different ways, as far as the result of a spec depends on it.
type answers struct {
	// ignoresTags: CreateBucket stores no tags, so the operator sets its tag by a second request.
	ignoresTags bool
	// anyRegion: a signature may be for any region.
	anyRegion bool
	// timeout of a probe, in seconds. Without tags in CreateBucket, a creation that outlives its probe leaves a
	// bucket that is nobody's, so a slow server gets longer.
	timeout int32
}

// answersOf has the servers that the harness can start.
var answersOf = map[string]answers{
	"versitygw": {timeout: 5},
	"weed":      {ignoresTags: true, anyRegion: true, timeout: 15}, // SeaweedFS 4.53
	"minio":     {ignoresTags: true, anyRegion: true, timeout: 15}, // 7aac2a2c5, of February 2026
}

// server returns the answers of the server of this suite.
func server() answers { return answersOf[storage.Program()] }
