// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxLines bounds three products, without tests, generated code and licence lines. Raise a bound only with a reason.
var maxLines = map[string]int{
	"operator":    8_200, // the root, api, controllers and runners, but for the two below
	"page server": 1_100, // controllers/markdownview/viewer
	"election":    1_400, // runners/election, a module that other operators use
}

// license is the head of each file, which is no code.
const license = "// SPDX-License-Identifier: Apache-2.0\n\n"

// productOf returns the product that a file below the root belongs to.
func productOf(path string) string {
	switch {
	case strings.HasPrefix(path, "controllers/markdownview/viewer/"):
		return "page server"
	case strings.HasPrefix(path, "runners/election/"):
		return "election"
	}
	return "operator"
}

// The operator without its tests and what is generated stays thin, or the harness is not the heart.
func TestOperatorIsThin(t *testing.T) {
	lines := map[string]int{}
	for _, dir := range []string{".", "api", "controllers", "runners"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			switch name := filepath.Base(path); {
			case err != nil:
				return err
			case entry.IsDir() && dir == "." && path != filepath.Join(root, dir), name == "reconcilertest":
				return fs.SkipDir
			case filepath.Ext(name) != ".go", strings.HasSuffix(name, "_test.go"), strings.HasPrefix(name, "zz_generated"):
				return nil
			}
			source, err := os.ReadFile(path)
			product, relErr := filepath.Rel(root, path)
			lines[productOf(product)] += strings.Count(strings.TrimPrefix(string(source), license), "\n")
			return errors.Join(err, relErr)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for product, most := range maxLines {
		t.Logf("the %s has %d lines", product, lines[product])
		if lines[product] == 0 || lines[product] > most {
			t.Errorf("the %s has %d lines, want at most %d: remove some, or raise maxLines and say why", product,
				lines[product], most)
		}
	}
}
