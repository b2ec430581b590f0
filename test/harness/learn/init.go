// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/harness/program"
)

// Init runs an operator and writes its subject and scenarios. The error names the kinds of which nothing was learned.
func Init(ctx context.Context, o Options, output io.Writer) (err error) {
	log.SetLogger(logr.Discard())
	d, err := propose(ctx, o, output)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "prove-init-")
	if err != nil {
		return fmt.Errorf("describing %s: %w", d.Name, err)
	}
	clientLog, err := program.LogTo(work)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clientLog.Close(), os.RemoveAll(work)) }()
	l := &learner{draft: d, dir: work, random: rand.New(rand.NewPCG(program.Seed(o.Seed), 0)), output: output}
	if err := l.learn(ctx); err != nil {
		return fmt.Errorf("describing %s: %w", d.Name, err)
	}
	return d.untaught()
}

// save writes the subject and the scenarios that are known, and tells which.
func (d *Draft) save(output io.Writer) error {
	relative := *d // to its folder, while d goes on to be read elsewhere
	relative.CRDs = slices.Clone(d.CRDs)
	if err := relative.relativeTo(d.Dir); err != nil {
		return err
	}
	written, err := relative.write(d.Dir, relative.Scenarios)
	for _, file := range written {
		fmt.Fprintf(output, "wrote %s\n", file)
	}
	return err
}

// untaught is an error with the kinds that have a sample and no scenario: a sample that teaches nothing is no success.
func (d *Draft) untaught() error {
	var all []string
	for _, k := range d.Kinds {
		if k.Problem != "" && k.example != nil {
			all = append(all, k.Word)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("nothing was learned from the samples of %s, so they have no scenario; correct the samples, add what "+
		"they refer to, or describe the other kinds with --kind", strings.Join(all, ", "))
}

// relativeTo makes the paths of the description relative to its folder.
func (d *Draft) relativeTo(dir string) (err error) {
	for _, path := range d.paths() {
		if *path, err = filepath.Rel(dir, *path); err != nil {
			return fmt.Errorf("writing the subject: %w", err)
		}
	}
	return nil
}

// write writes the subject and the scenarios of its kinds, and returns their paths. Scenarios of its kinds that were
// there before are removed.
func (d *Draft) write(dir string, scenarios func(*DraftKind) ([]DraftFile, error)) (written []string, err error) {
	files := []DraftFile{{"subject", d.Subject()}}
	for i := range d.Kinds {
		k := &d.Kinds[i]
		if k.Problem == notRun {
			continue // its turn comes, unless the user stops init
		}
		for _, name := range []string{k.ScenarioName(), k.ChangeName()} {
			err := os.Remove(filepath.Join(dir, "scenarios", name+".yaml"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("removing an earlier scenario: %w", err)
			}
		}
		if k.Problem != "" {
			continue
		}
		some, err := scenarios(k)
		if err != nil {
			return nil, err
		}
		for _, file := range some {
			files = append(files, DraftFile{filepath.Join("scenarios", file.Name), file.Text})
		}
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name+".yaml")
		err := os.MkdirAll(filepath.Dir(path), 0o750)
		if err == nil {
			err = os.WriteFile(path, file.Text, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("writing the description: %w", err)
		}
		written = append(written, path)
	}
	return written, nil
}
