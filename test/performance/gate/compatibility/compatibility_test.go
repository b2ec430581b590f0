package compatibility_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/performance/gate/compatibility"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/gate/row/rowtest"
)

const root = "../../../.."

func check(t *testing.T, base, head string) map[string]row.Row {
	t.Helper()
	return rowtest.Check(t, compatibility.Check, base, head)
}

func TestACheckoutIsCompatibleWithItself(t *testing.T) {
	t.Parallel()
	rows := check(t, root, root)
	for id, r := range rows {
		if r.Verdict != row.Same {
			t.Errorf("%s is %s: %s", id, r.Verdict, r.Reason)
		}
	}
	g := NewWithT(t)
	g.Expect(rows).To(HaveKey("compatibility/schema/tenants.leasehold.dev/v1beta1"))
	for _, operation := range []string{"fields tried", "read", "label", "write", "replace", "status", "create", "delete"} {
		g.Expect(rows).To(HaveKey("compatibility/live/markdownviews.leasehold.dev/v1beta1/" + operation))
	}
}

func TestWhatStoredObjectsLoseIsFound(t *testing.T) {
	t.Parallel()
	head := t.TempDir()
	for _, folder := range []string{"crd", "samples"} {
		NewWithT(t).Expect(os.CopyFS(filepath.Join(head, "config", folder), os.DirFS(filepath.Join(root, "config", folder)))).To(Succeed())
	}
	// The status loses a field, a bound that is not ratcheted away is tighter for new
	// objects, and a value is no longer one of an enum.
	change(t, head, "markdownviews", "              contentHash:\n", "              contentDigest:\n")
	change(t, head, "markdownviews", "maximum: 5\n", "maximum: 2\n")
	rows := check(t, root, head)

	g := NewWithT(t)
	schema, live := "compatibility/schema/markdownviews.leasehold.dev/v1beta1/", "compatibility/live/markdownviews.leasehold.dev/v1beta1/"
	g.Expect(rows[schema+"status.contentHash removed"].Verdict).To(Equal(row.Worse))
	g.Expect(rows[schema+"spec.replicas maximum"].Verdict).To(Equal(row.Worse))
	g.Expect(rows[live+"read"].Verdict).To(Equal(row.Worse))
	g.Expect(rows[live+"read"].Reason).To(ContainSubstring("status.contentHash is gone"))
	g.Expect(rows[live+"create"].Verdict).To(Equal(row.Worse))
	g.Expect(rows[live+"create"].Reason).To(ContainSubstring("spec.replicas"))
	g.Expect(rows[live+"delete"].Verdict).To(Equal(row.Same))
	for id, r := range rows {
		if !strings.Contains(id, "markdownviews") && r.Verdict != row.Same {
			t.Errorf("%s is %s: %s", id, r.Verdict, r.Reason)
		}
	}
}

// change replaces text of a CustomResourceDefinition, which has to be there.
func change(t *testing.T, dir, kind, from, to string) {
	t.Helper()
	g := NewWithT(t)
	file := filepath.Join(dir, "config", "crd", "bases", "leasehold.dev_"+kind+".yaml")
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bytes.Count(text, []byte(from))).To(Equal(1), "%q in %s", from, file)
	g.Expect(os.WriteFile(file, bytes.ReplaceAll(text, []byte(from), []byte(to)), 0o644)).To(Succeed())
}
