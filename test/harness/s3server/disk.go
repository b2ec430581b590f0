// SPDX-License-Identifier: Apache-2.0

package s3server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// internalFolder is the folder that versitygw keeps for itself in each bucket.
const internalFolder = ".sgwtmp"

// Buckets returns the names of all buckets of all owners, sorted. It reads the disk of versitygw,
// so it works while the server is paused or stopped. For other servers it returns
// errors.ErrUnsupported, wrapped.
func (s *Server) Buckets() ([]string, error) {
	if s.program.name != versity {
		return nil, fmt.Errorf("listing the buckets on disk: %w of %s", errors.ErrUnsupported, s.program.name)
	}
	entries, err := os.ReadDir(s.data())
	if err != nil {
		return nil, fmt.Errorf("listing the buckets on disk: %w", err)
	}
	var names []string
	for _, entry := range entries {
		// No bucket's name begins with a dot; those of versitygw's own folders do.
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Objects returns the keys of all current objects of a bucket, in order. Like Buckets, it reads the
// disk and supports only versitygw. Older versions are not included. For a bucket that does not
// exist it returns fs.ErrNotExist, wrapped.
func (s *Server) Objects(bucket string) ([]string, error) {
	if s.program.name != versity {
		return nil, fmt.Errorf("listing the objects of bucket %s on disk: %w of %s", bucket, errors.ErrUnsupported,
			s.program.name)
	}
	root := filepath.Join(s.data(), bucket)
	var keys []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path == filepath.Join(root, internalFolder) {
				return fs.SkipDir
			}
			return nil
		}
		key, err := filepath.Rel(root, path)
		keys = append(keys, filepath.ToSlash(key))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the objects of bucket %s on disk: %w", bucket, err)
	}
	return keys, nil
}
