// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"hash/fnv"
	"strings"

	"leasehold.dev/test/harness/run"
)

// shard is one of several parts of all plans, by a hash of their IDs. The parts of one count are a
// partition, whatever plans there are. The zero value has all plans.
type shard struct{ index, count uint64 }

// String implements pflag.Value.
func (s *shard) String() string {
	if s.count == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.index, s.count)
}

// Type implements pflag.Value.
func (s *shard) Type() string { return "i/n" }

// Set implements pflag.Value. The indexes of an Indexed Job begin with 0, so 0/n is n/n.
func (s *shard) Set(text string) error {
	var parsed shard
	if text == "" {
		*s = parsed
		return nil
	}
	_, err := fmt.Sscanf(text, "%d/%d", &parsed.index, &parsed.count)
	if err != nil || parsed.String() != strings.TrimSpace(text) || parsed.index > parsed.count {
		return fmt.Errorf("%q is not i/n with 0 <= i <= n", text)
	}
	if parsed.index == 0 {
		parsed.index = parsed.count
	}
	*s = parsed
	return nil
}

// has reports whether the plan is in this part.
func (s *shard) has(p run.Plan) bool {
	if s.count == 0 {
		return true
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(p.ID())) // a hash never fails
	return hash.Sum64()%s.count == s.index-1
}
