// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"path/filepath"
)

// Find returns the path in a variable, else what was built in the module that contains the
// working directory or in one around it.
func Find(variable, built string, missing error) (string, error) {
	path := os.Getenv(variable)
	if path == "" {
		return Upwards(built, IsFile, missing)
	}
	if !IsFile(path) {
		return "", fmt.Errorf("looking for %s (%s): %w", path, variable, missing)
	}
	return filepath.Abs(path)
}

// Upwards returns where path is good, below the root of the module that contains
// the working directory or of one around it, or missing, wrapped.
func Upwards(path string, good func(string) bool, missing error) (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for at := start; ; at = filepath.Dir(at) {
		if IsFile(filepath.Join(at, "go.mod")) && good(filepath.Join(at, path)) {
			return filepath.Join(at, path), nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("looking for %s from %s Upwards: %w", path, start, missing)
		}
	}
}

// IsFile reports whether there is a regular file at path.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
