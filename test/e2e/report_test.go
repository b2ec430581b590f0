package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// report is what the run measured. It is written as JSON and as Markdown, and
// printed at the end.
type report struct {
	mu sync.Mutex

	Phases   []*phase       `json:"phases"`
	Failover []failover     `json:"failover"`
	Crashes  []crashFinding `json:"crashes"`
	Probes   []probeFinding `json:"probes"`
}

// phase is a part of the run: setting up, or one test.
type phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Failed  bool    `json:"failed,omitempty"`
	began   time.Time
}

// failover is one change of leaders. The times are seconds from the moment the
// leader was lost.
type failover struct {
	Mode        string  `json:"mode"`
	Settings    string  `json:"settings"`    // lease duration/renew deadline/retry period
	NewHolder   float64 `json:"newHolder"`   // another replica holds the Lease
	FirstWrite  float64 `json:"firstWrite"`  // its first write to what the operator manages
	FirstReady  float64 `json:"firstReady"`  // a Tenant created in the gap is Ready
	Transitions int     `json:"transitions"` // by how much leaseTransitions grew
	// Refused is how many dry-run creates the webhooks did not answer, of Asked.
	Refused int `json:"refused"`
	Asked   int `json:"asked"`
}

// crashFinding is one takeover from a leader that crashed.
type crashFinding struct {
	Mode      string  `json:"mode"`
	Settings  string  `json:"settings"`
	NewHolder float64 `json:"newHolder"` // seconds from the crash, or from the release
	// Resumed are the seconds from filled caches to the lead, of the process that was started
	// again.
	Resumed float64 `json:"resumed,omitempty"`
}

// probeFinding has the answers of a replica's endpoints in one state.
type probeFinding struct {
	Replica  string  `json:"replica"` // leader or standby
	State    string  `json:"state"`
	Statuses answers `json:"statuses"`
	Ready    bool    `json:"ready"`  // the Pod's condition
	Served   bool    `json:"served"` // the webhooks' Service sends new connections to it
}

func newReport() *report { return &report{} }

func (r *report) begin(name string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Phases = append(r.Phases, &phase{Name: name, began: now})
}

func (r *report) end(name string, failed bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.Phases {
		if p.Name == name && p.Seconds == 0 {
			p.Seconds, p.Failed = now.Sub(p.began).Seconds(), failed
		}
	}
}

func (r *report) addFailover(f failover) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Failover = append(r.Failover, f)
}

func (r *report) addCrash(c crashFinding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Crashes = append(r.Crashes, c)
}

func (r *report) addProbe(p probeFinding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Probes = append(r.Probes, p)
}

// write writes report.json and report.md into dir and prints the latter.
func (r *report) write(dir string, out io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	text := r.markdown()
	for name, content := range map[string][]byte{"report.json": encoded, "report.md": []byte(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	fmt.Fprintf(out, "report: %s\n\n%s\n", filepath.Join(dir, "report.md"), text)
	return nil
}

func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("## Failover, in seconds from the loss\n\n" +
		"| how the leader is lost | lease/deadline/retry | new holder | first write | first Ready | transitions | admission refused |\n|---|---|---|---|---|---|---|\n")
	for _, f := range r.Failover {
		fmt.Fprintf(&b, "| %s | %s | %.1f | %.1f | %.1f | %d | %d of %d |\n",
			f.Mode, f.Settings, f.NewHolder, f.FirstWrite, f.FirstReady, f.Transitions, f.Refused, f.Asked)
	}
	r.crashTable(&b)
	r.probeTable(&b)
	b.WriteString("\n## Phases\n\n| phase | seconds | |\n|---|---|---|\n")
	var sum float64
	for _, p := range r.Phases {
		failed := ""
		if p.Failed {
			failed = "failed"
		}
		sum += p.Seconds
		fmt.Fprintf(&b, "| %s | %.1f | %s |\n", p.Name, p.Seconds, failed)
	}
	fmt.Fprintf(&b, "| in all | %.1f | |\n", sum)
	return b.String()
}

func (r *report) crashTable(b *strings.Builder) {
	b.WriteString("\n## Crashes, in seconds\n\n| | lease/deadline/retry | loss to new holder | filled caches to lead |\n|---|---|---|---|\n")
	for _, c := range r.Crashes {
		resumed := ""
		if c.Resumed > 0 {
			resumed = fmt.Sprintf("%.3f", c.Resumed)
		}
		fmt.Fprintf(b, "| %s | %s | %.2f | %s |\n", c.Mode, c.Settings, c.NewHolder, resumed)
	}
}

// probeTable has a line for each state and replica, and a column for each endpoint.
func (r *report) probeTable(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Probe endpoints\n\n| state | replica | %s | Pod Ready | Service routes to it |\n|---|---|%s---|---|\n",
		strings.Join(endpoints(), " | "), strings.Repeat("---|", len(endpoints())))
	for _, p := range r.Probes {
		fmt.Fprintf(b, "| %s | %s |", p.State, p.Replica)
		for _, path := range endpoints() {
			status := "no answer"
			if p.Statuses[path] != 0 {
				status = fmt.Sprint(p.Statuses[path])
			}
			fmt.Fprintf(b, " %s |", status)
		}
		fmt.Fprintf(b, " %t | %t |\n", p.Ready, p.Served)
	}
}
