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
				return fmt.Errorf("%s is there; name another folder with --subject, or replace it with --overwrite", file)
			}
		}
	}
	return nil
}

func scenarioFile(dir, name string) string { return filepath.Join(dir, "scenarios", name+".yaml") }

// relative makes the paths of the description relative to its folder.
func (o *initOptions) relative(d *learn.Draft) (err error) {
	paths := []*string{&d.Binary, &d.Manifests}
	for _, path := range []*string{&d.Values, &d.WorkingDir} {
		if *path != "" {
			paths = append(paths, path)
		}
	}
	for i := range d.CRDs {
		paths = append(paths, &d.CRDs[i])
	}
	for _, path := range paths {
		if *path, err = filepath.Rel(o.dir, *path); err != nil {
			return fmt.Errorf("writing the subject: %w", err)
		}
	}
	return nil
}

// write writes the files of a description, and replaces others only if it may: scenarios of its kinds
// that it does not have are removed then. It returns their paths.
func write(dir string, d *learn.Draft, overwrite bool) ([]string, error) {
	files := map[string][]byte{filepath.Join(dir, "subject.yaml"): d.Subject()}
	order := []string{filepath.Join(dir, "subject.yaml")}
	for i := range d.Kinds {
		if d.Kinds[i].Problem != "" {
			continue
		}
		scenarios, err := d.Scenarios(&d.Kinds[i])
		if err != nil {
			return nil, err
		}
		for _, s := range scenarios {
			file := scenarioFile(dir, s.Name)
			files[file] = s.Text
			order = append(order, file)
		}
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !overwrite {
		mode |= os.O_EXCL
	}
	if err := os.MkdirAll(filepath.Join(dir, "scenarios"), 0o750); err != nil {
		return nil, fmt.Errorf("writing the subject: %w", err)
	}
	for i := range d.Kinds {
		for _, name := range d.Kinds[i].ScenarioNames() {
			file := scenarioFile(dir, name)
			if _, written := files[file]; written || !overwrite {
				continue
			}
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("removing a scenario of before: %w", err)
			}
		}
	}
	for _, file := range order {
		if err := writeFile(file, mode, files[file]); err != nil {
			return nil, fmt.Errorf("writing the subject: %w; --overwrite replaces files that are there", err)
		}
	}
	return order, nil
}

func writeFile(path string, mode int, text []byte) error {
	file, err := os.OpenFile(path, mode, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}
