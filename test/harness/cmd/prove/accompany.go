// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"leasehold.dev/test/harness/report"
)

const (
	// accompanyPeriod is how often the errors of an operator are printed while it is learned.
	accompanyPeriod = 30 * time.Second
	// accompanyLines is how many of them are printed each time.
	accompanyLines = 3
)

// notServed matches the error of a client about a kind without a definition.
var notServed = regexp.MustCompile(`no matches for kind \\?"([A-Za-z]+)\\?" in (?:version|group) \\?"([a-z0-9./-]+)`)

// accompany prints what is new among the errors in the logs until stop is called: an operator that waits for what
// is not there says so nowhere else. Errors that differ only by numbers, and by names with numbers, are the same.
func (l *learner) accompany(ctx context.Context, logs func() (map[string][]byte, error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var printing sync.WaitGroup
	printing.Go(func() {
		ticker := time.NewTicker(accompanyPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			all, err := logs()
			if err != nil {
				fmt.Fprintf(l.output, "the logs of the operator cannot be read: %v\n", err)
				return
			}
			fmt.Fprint(l.output, l.newErrors(all))
		}
	})
	return func() {
		cancel()
		printing.Wait()
	}
}

// newErrors describes the errors in the logs that no call before has returned.
func (l *learner) newErrors(logs map[string][]byte) string {
	if l.errors == nil {
		l.errors = map[string]bool{}
	}
	var fresh []string
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		for _, line := range report.ErrorLines(strings.Split(string(logs[name]), "\n")) {
			if plain := times.ReplaceAllString(line, ""); !l.errors[plain] {
				l.errors[plain] = true
				fresh = append(fresh, line)
			}
		}
	}
	if len(fresh) == 0 {
		return "the run continues, and the operator's log contains no new errors\n"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "the run continues; new errors in the operator's log: %d; the last ones:\n", len(fresh))
	for _, line := range fresh[max(0, len(fresh)-accompanyLines):] {
		fmt.Fprintf(&text, "    %s\n", line)
	}
	advised := map[string]bool{}
	for _, found := range notServed.FindAllStringSubmatch(strings.Join(fresh, "\n"), -1) {
		if kind := found[1] + " of " + found[2]; !advised[kind] {
			advised[kind] = true
			fmt.Fprintf(&text, "    the API server does not serve %s: set --crds to the file or directory of its "+
				"CustomResourceDefinition\n",
				kind)
		}
	}
	return text.String()
}
