// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"leasehold.dev/test/harness/scenario"
	"leasehold.dev/test/harness/subject"
	"leasehold.dev/test/internal/tree"
)

// check returns an error for each mutant whose patch does not apply to the source at root or that
// names no scenario of the subject, and for each class without a mutant. It builds nothing. The
// folder of the mutants and the file of the subject are below the root.
func check(ctx context.Context, root, folder, file string) (err error) {
	all, err := load(patchesIn(root, folder))
	if err != nil {
		return err
	}
	classes, err := loadClasses(filepath.Join(root, folder))
	if err != nil {
		return err
	}
	// The subject is not built if a program is named, and none is started here.
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding a program: %w", err)
	}
	s, err := subject.Load(ctx, filepath.Join(root, file), self)
	if err != nil {
		return err
	}
	errs := []error{covered(classes, all)}
	for _, m := range all {
		errs = append(errs, tree.Check(ctx, root, m.path))
	}
	for _, id := range plansOf(all) {
		of, _, err := planOf(id)
		if !slices.ContainsFunc(s.Scenarios, func(s scenario.Scenario) bool { return s.Name == of }) {
			err = errors.Join(err, fmt.Errorf("plan %s: there is no scenario %s", id, of))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
