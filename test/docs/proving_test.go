package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold.dev/test/harness/invariant"
)

// proving is the document of the prover.
func proving(t *testing.T) string {
	t.Helper()
	document, err := os.ReadFile(filepath.Join(root, "docs", "proving.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

func TestProving_ListsTheInvariants(t *testing.T) {
	var rows strings.Builder
	for _, i := range invariant.All() {
		fmt.Fprintf(&rows, "| %s | %s |\n", i.Name, i.Promise)
	}
	if want := "| | promise |\n|---|---|\n" + rows.String(); !strings.Contains(proving(t), want) {
		t.Errorf("docs/proving.md does not have the table\n%s", want)
	}
}

// The document shows the example as a whole, except for the comment in its first line.
func TestProving_ShowsTheExampleThatRuns(t *testing.T) {
	for _, file := range []string{"subject.yaml", "scenarios/backup-life.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "test", "harness", "testdata", "archiver", file))
		if err != nil {
			t.Fatal(err)
		}
		_, body, found := strings.Cut(string(text), "\n")
		if want := "# " + file + "\n" + body + "```"; !found || !strings.Contains(proving(t), want) {
			t.Errorf("docs/proving.md does not have\n%s", want)
		}
	}
}
