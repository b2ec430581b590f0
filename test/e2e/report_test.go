// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The tables of the report.
const (
	failovers = "## Failover, in seconds from the loss\n\n" +
		"| how the leader is lost | lease/deadline/retry | new holder | first write | first Ready | transitions | admission refused |\n" +
		"|---|---|---|---|---|---|---|\n"
	crashTimes = "\n## Crashes, in seconds\n\n| | lease/deadline/retry | loss to new holder | filled caches to lead |\n|---|---|---|---|\n"
	phases     = "\n## Phases\n\n| phase | seconds | |\n|---|---|---|\n"
)

// report has the measurements of the run as rows of tables.
type report struct {
	mu   sync.Mutex
	rows map[string]string
	took time.Duration // of all phases
}

// add adds a row to a table.
func (r *report) add(table, format string, cells ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows[table] += "| " + fmt.Sprintf(format, cells...) + " |\n"
}

// phase adds a part of the run: the setup or one test.
func (r *report) phase(name string, began time.Time, failed bool) {
	took, result := time.Since(began), ""
	if failed {
		result = "failed"
	}
	r.took += took
	r.add(phases, "%s | %.1f | %s", name, took.Seconds(), result)
}

// write writes report.md into dir and prints it.
func (r *report) write(dir string, out io.Writer) error {
	r.add(phases, "in all | %.1f | ", r.took.Seconds())
	var text strings.Builder
	for _, table := range []string{failovers, crashTimes, phases} {
		text.WriteString(table + r.rows[table])
	}
	path := filepath.Join(dir, "report.md")
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	fmt.Fprintf(out, "report: %s\n\n%s\n", path, text.String())
	return nil
}
