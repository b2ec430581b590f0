// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"leasehold.dev/test/harness/learn"
)

// checkWritable returns nil if files can be created in a folder that may not be there yet.
func checkWritable(dir string) error {
	for {
		_, err := os.Stat(dir)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		dir = filepath.Dir(dir)
	}
	file, err := os.CreateTemp(dir, ".prove-")
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// checkAbsent returns an error if a scenario that init writes is there already.
func checkAbsent(dir string, d *learn.Draft) error {
	for i := range d.Kinds {
		for _, name := range d.Kinds[i].ScenarioNames() {
			file := scenarioFile(dir, name)
			if _, err := os.Stat(file); err == nil {
				return fmt.Errorf("%s already exists; choose another directory with --subject, or overwrite the "+
					"file with --overwrite", file)
			}
		}
	}
	return nil
}

func scenarioFile(dir, name string) string { return filepath.Join(dir, "scenarios", name+".yaml") }

// relative makes the paths of the description relative to its folder.
func (o *initOptions) relative(d *learn.Draft) (err error) {
	paths := []*string{&d.Binary, &d.Manifests, &d.Values, &d.WorkingDir}
	for i := range d.CRDs {
		paths = append(paths, &d.CRDs[i])
	}
	for _, path := range paths {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Rel(o.dir, *path); err != nil {
			return fmt.Errorf("writing the subject: %w", err)
		}
	}
	return nil
}

// write writes the files of a description and returns their paths. Scenarios of its kinds that it
// does not have are removed.
func write(dir string, d *learn.Draft) ([]string, error) {
	for i := range d.Kinds {
		for _, name := range d.Kinds[i].ScenarioNames() {
			if err := os.Remove(scenarioFile(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("removing a scenario of before: %w", err)
			}
		}
	}
	written := []string{filepath.Join(dir, "subject.yaml")}
	if err := writeFiles(map[string][]byte{written[0]: d.Subject()}); err != nil {
		return nil, err
	}
	for i := range d.Kinds {
		if d.Kinds[i].Problem != "" {
			continue
		}
		files, err := writeScenarios(dir, d, &d.Kinds[i])
		if err != nil {
			return nil, err
		}
		written = append(written, files...)
	}
	return written, nil
}

// writeScenarios writes the scenarios of a kind and returns their paths.
func writeScenarios(dir string, d *learn.Draft, k *learn.DraftKind) (written []string, err error) {
	scenarios, err := d.Scenarios(k)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, s := range scenarios {
		written = append(written, scenarioFile(dir, s.Name))
		files[scenarioFile(dir, s.Name)] = s.Text
	}
	return written, writeFiles(files)
}

// writeFiles writes files, and makes their folders.
func writeFiles(files map[string][]byte) error {
	for file, text := range files {
		err := os.MkdirAll(filepath.Dir(file), 0o750)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("writing the description: %w", err)
		}
	}
	return nil
}
