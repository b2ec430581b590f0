// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// class is a kind of mistake that operators are known for.
type class struct {
	Name string `json:"name"`
	// Bug describes what goes wrong.
	Bug string `json:"bug"`
	// Seen are where it was met, in other operators.
	Seen []string `json:"seen"`
	// Cannot is the reason for having no mutant; "" if there has to be one.
	Cannot string `json:"cannot,omitempty"`
}

// loadClasses reads the list in the folder of the mutants.
func loadClasses(folder string) ([]class, error) {
	text, err := os.ReadFile(filepath.Join(folder, "classes.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the classes: %w", err)
	}
	var all []class
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, fmt.Errorf("reading the classes: %w", err)
	}
	return all, nil
}

// covered finds classes without a mutant, and mutants without a class.
func covered(classes []class, all []mutant) error {
	var errs []error
	for i, c := range classes {
		has := slices.ContainsFunc(all, func(m mutant) bool { return m.Class == c.Name })
		switch {
		case c.Name == "" || c.Bug == "" || len(c.Seen) == 0:
			errs = append(errs, fmt.Errorf("class %d %s: it needs a name, what the bug is and where it was seen", i+1, c.Name))
		case has && c.Cannot != "":
			errs = append(errs, fmt.Errorf("class %s: it is said to be impossible, and there is a mutant of it", c.Name))
		case !has && c.Cannot == "":
			errs = append(errs, fmt.Errorf("class %s: there is neither a mutant of it nor a reason why there can be none",
				c.Name))
		}
	}
	for _, m := range all {
		if !slices.ContainsFunc(classes, func(c class) bool { return c.Name == m.Class }) {
			errs = append(errs, fmt.Errorf("mutant %s: no class is called %q", m.name, m.Class))
		}
	}
	return errors.Join(errs...)
}
