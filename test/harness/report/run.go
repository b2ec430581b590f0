// SPDX-License-Identifier: Apache-2.0

package report

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// Run is one run with everything that it was judged by. Fields outside its JSON have files of
// their own.
type Run struct {
	invariant.Outcome

	Seed     uint64             `json:"seed"`
	Contract invariant.Contract `json:"operator"`
	History  *history.History   `json:"-"`
	// References are the clean runs with which it was compared.
	References []*history.History `json:"-"`
	// AuditLog is the API server's audit log of the run, if there is one.
	AuditLog []byte `json:"-"`
	// Logs are those of the operator's replicas in the run, by the names of their Pods.
	Logs map[string][]byte `json:"-"`
}

// The files of a run's folder. A history may also be compressed, with .gz after
// its name.
const (
	caseFile     = "case.json"
	historyFile  = "history.json"
	cleanFiles   = "clean-%d.json"
	verdictsFile = "verdicts.txt"
	replayFile   = "replay.txt"
	auditFile    = "audit.log"
	objectsFile  = "objects.yaml"
	timelineFile = "timeline.html"
)

// Judge judges the run as it was recorded, by the invariants as they are now.
func (r *Run) Judge() ([]invariant.Verdict, invariant.Result) {
	verdicts := invariant.Judge(invariant.Case{History: r.History, References: r.References, Contract: r.Contract})
	return verdicts, invariant.Sum(r.History, verdicts, r.Invariants)
}

// Save writes the run's folder below dir and returns the path of its timeline.
func (r *Run) Save(dir string) (timeline string, err error) {
	dir = filepath.Join(dir, r.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("making a folder for run %s: %w", r.Name, err)
	}
	files := map[string]func(io.Writer) error{
		caseFile:     func(w io.Writer) error { return indented(w, r) },
		historyFile:  r.History.Encode,
		verdictsFile: r.writeVerdicts,
		replayFile:   func(w io.Writer) error { _, err := fmt.Fprintln(w, r.Replay); return err },
		auditFile:    func(w io.Writer) error { _, err := w.Write(r.AuditLog); return err },
		objectsFile:  r.writeObjects,
		timelineFile: r.WriteTimeline,
	}
	for i, clean := range r.References {
		files[fmt.Sprintf(cleanFiles, i+1)] = clean.Encode
	}
	for name, text := range r.Logs {
		files["operator-"+name+".log"] = func(w io.Writer) error { _, err := w.Write(text); return err }
	}
	var errs []error
	for name, content := range files {
		errs = append(errs, create(filepath.Join(dir, name), content))
	}
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("keeping run %s: %w", r.Name, err)
	}
	return filepath.Join(dir, timelineFile), nil
}

// create writes a file.
func create(path string, content func(io.Writer) error) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return content(file)
}

func indented(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func (r *Run) writeVerdicts(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n", r.Name, r.Result)
	for _, line := range []struct{ name, text string }{
		{"scenario", r.Scenario}, {"plan", r.Plan}, {"fault", r.Words}, {"seed", fmt.Sprint(r.Seed)},
		{"again", r.Replay},
	} {
		if line.text != "" {
			fmt.Fprintf(w, "%s: %s\n", line.name, line.text)
		}
	}
	for _, f := range r.Faults {
		fmt.Fprintf(w, "fault: %s (happened %d times)\n", f, f.Happened)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "finding: %s\n", f)
	}
	for _, note := range r.Notes() {
		fmt.Fprintln(w, note)
	}
	for _, v := range r.Verdicts {
		fmt.Fprintf(w, "\n%s\n", v.Details())
	}
	_, err := fmt.Fprintf(w, "\n%s", r.LogTails())
	return err
}

// Notes are lines about the course of the run beside its verdicts.
func (r *Run) Notes() (lines []string) {
	for _, rejection := range r.History.Rejections {
		lines = append(lines, fmt.Sprintf("rejection: %s", rejection))
	}
	for _, release := range r.History.Releases {
		lines = append(lines, fmt.Sprintf("release: %s", release))
	}
	for _, object := range r.Leftovers {
		lines = append(lines, fmt.Sprintf("left behind: the operator created %s, and did not delete it after the objects of "+
			"the users were gone; the harness deleted it", object))
	}
	return lines
}

// Load reads the folder of a run that Save has written, without the audit log: the histories have
// all that is judged. Its name is that of the folder, which may be a copy with another name.
func Load(dir string) (*Run, error) {
	r := &Run{}
	text, err := os.ReadFile(filepath.Join(dir, caseFile))
	if err != nil {
		return nil, fmt.Errorf("loading a run: %w", err)
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("loading a run from %s: %w", dir, err)
	}
	r.Name = filepath.Base(dir)
	if r.History, err = loadHistory(filepath.Join(dir, historyFile)); err != nil {
		return nil, fmt.Errorf("loading a run from %s: %w", dir, err)
	}
	for i := 1; ; i++ {
		clean, err := loadHistory(filepath.Join(dir, fmt.Sprintf(cleanFiles, i)))
		if errors.Is(err, fs.ErrNotExist) {
			return r, nil
		}
		if err != nil {
			return nil, fmt.Errorf("loading a run from %s: %w", dir, err)
		}
		r.References = append(r.References, clean)
	}
}

// Find returns the folders of runs at and below dir, in order.
func Find(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == caseFile && !entry.IsDir() {
			found = append(found, filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for runs: %w", err)
	}
	slices.Sort(found)
	return found, nil
}

// Clear removes the folders of runs and the comparison in dir, which may not be there, so that what
// is found later is of one sweep.
func Clear(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "*", caseFile))
	if err != nil {
		return fmt.Errorf("looking for what an earlier sweep has left: %w", err)
	}
	left := []string{filepath.Join(dir, comparisonFile)}
	for _, run := range found {
		left = append(left, filepath.Dir(run))
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clearing away what an earlier sweep has left: %w", err)
		}
	}
	return nil
}

// loadHistory reads a history, or the compressed one if there is no other.
func loadHistory(path string) (*history.History, error) {
	file, err := os.Open(path)
	if err == nil {
		defer file.Close() //nolint:errcheck // it is only read
		return history.Decode(file)
	}
	compressed, gzErr := os.Open(path + ".gz")
	if gzErr != nil {
		return nil, err
	}
	defer compressed.Close() //nolint:errcheck // it is only read
	plain, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", compressed.Name(), err)
	}
	return history.Decode(plain)
}
