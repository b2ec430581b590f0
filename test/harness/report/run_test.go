// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
)

// A saved and loaded run is equal, and gets the same verdicts.
func TestSavedRunIsLoadedAndJudgedAgain(t *testing.T) {
	g := NewWithT(t)
	r, dir := split(t), t.TempDir()
	r.Logs = map[string][]byte{"manager-0": []byte("1\n2\n3\n4\n5\nit ends\n"), "manager-1": nil}
	page, err := r.Save(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(page).To(Equal(filepath.Join(dir, "001-split", "timeline.html")))
	for name, part := range map[string]string{
		"timeline.html": "<!DOCTYPE html>", "audit.log": "{}\n", "replay.txt": r.Replay + "\n",
		"objects.yaml": "text: <b>hostile</b>",
		"verdicts.txt": "seed: 7\nagain: make prove SEED=7", "case.json": `"seed": 7`, "history.json": `"format":1`,
		"clean-1.json": `"format":1`, "operator-manager-0.log": "1\n2", "operator-manager-1.log": "",
	} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(page), name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(text)).To(ContainSubstring(part), name)
	}

	found, err := Find(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal([]string{filepath.Dir(page)}))
	back, err := Load(found[0])
	g.Expect(err).NotTo(HaveOccurred())
	verdicts, err := os.ReadFile(filepath.Join(found[0], "verdicts.txt"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(verdicts)).To(HaveSuffix(
		"    the end of the log of manager-0:\n        2\n        3\n        4\n        5\n        it ends\n"))
	r.AuditLog, r.Logs = nil, nil // are for people
	g.Expect(cmp.Diff(r, back)).To(BeEmpty())
	judged, result := back.Judge()
	g.Expect(result).To(Equal(r.Result))
	g.Expect(cmp.Diff(r.Verdicts, judged)).To(BeEmpty())
}

func TestCompressedHistoryIsLoaded(t *testing.T) {
	g := NewWithT(t)
	r := split(t)
	page, err := r.Save(t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	plain := filepath.Join(filepath.Dir(page), "history.json")
	text, err := os.ReadFile(plain)
	g.Expect(err).NotTo(HaveOccurred())
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(text)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Close()).To(Succeed())
	g.Expect(os.WriteFile(plain+".gz", packed.Bytes(), 0o600)).To(Succeed())
	g.Expect(os.Remove(plain)).To(Succeed())
	back, err := Load(filepath.Dir(page))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmp.Diff(r.History, back.History)).To(BeEmpty())
	g.Expect(os.WriteFile(plain+".gz", text, 0o600)).To(Succeed())
	_, err = Load(filepath.Dir(page))
	g.Expect(err).To(MatchError(ContainSubstring("unpacking")))
}

func TestLoadRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		file, text string // "" removes the file
		want       string
	}{
		"NoCase":       {"case.json", "", "case.json"},
		"NoHistory":    {"history.json", "", "history.json"},
		"BadCase":      {"case.json", "{", "unexpected end"},
		"BadHistory":   {"history.json", "{}", "format 0"},
		"BadReference": {"clean-1.json", "{}", "format 0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			page, err := split(t).Save(t.TempDir())
			g.Expect(err).NotTo(HaveOccurred())
			file := filepath.Join(filepath.Dir(page), tc.file)
			g.Expect(os.Remove(file)).To(Succeed())
			if tc.text != "" {
				g.Expect(os.WriteFile(file, []byte(tc.text), 0o600)).To(Succeed())
			}
			_, err = Load(filepath.Dir(page))
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
	g := NewWithT(t)
	_, err := Find(filepath.Join(t.TempDir(), "none"))
	g.Expect(err).To(MatchError(ContainSubstring("looking for runs")))
}

func TestSave_ReportsWriteErrors(t *testing.T) {
	g := NewWithT(t)
	r, dir := split(t), t.TempDir()
	g.Expect(os.MkdirAll(filepath.Join(dir, r.Name, "audit.log"), 0o750)).To(Succeed())
	_, err := r.Save(dir)
	g.Expect(err).To(MatchError(And(ContainSubstring("keeping run 001-split"), ContainSubstring("audit.log"))))
}

func TestObjectsAreTheirLastState(t *testing.T) {
	g := NewWithT(t)
	r := split(t)
	var text bytes.Buffer
	g.Expect(r.writeObjects(&text)).To(Succeed())
	g.Expect(text.String()).To(And(
		ContainSubstring("---\n# things.example.com ns/t (UID t-uid), as of resourceVersion 108\napiVersion: example.com/v1\n"),
		ContainSubstring("reason: IsTrue"), Not(ContainSubstring("IsFalse")),
	))
	gone := r.History.Versions[1]
	gone.Gone, gone.RevisionRange = true, r.History.Versions[len(r.History.Versions)-1].RevisionRange
	r.History.Versions = append(r.History.Versions, gone)
	text.Reset()
	g.Expect(r.writeObjects(&text)).To(Succeed())
	g.Expect(text.String()).To(ContainSubstring("(UID t-uid), deleted at resourceVersion"))
}

func TestClear_RemovesOnlyRuns(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	page, err := split(t).Save(dir)
	g.Expect(err).NotTo(HaveOccurred())
	mine := filepath.Join(dir, "mine.txt")
	g.Expect(os.WriteFile(mine, nil, 0o600)).To(Succeed())
	g.Expect(Clear(dir)).To(Succeed())
	g.Expect(filepath.Dir(page)).NotTo(BeADirectory())
	g.Expect(mine).To(BeARegularFile())
	g.Expect(Clear(filepath.Join(dir, "none"))).To(Succeed())
}

// Stacks after an error must not hide it.
func TestLogTails_PreferErrors(t *testing.T) {
	stack := strings.Repeat("\tat some.go:1\n", 9)
	for name, line := range map[string]string{
		"ZapJSON": `{"level":"error","ts":1,"msg":"Reconciler error"}`, "ZapConsole": "2026-01-01T00:00:00Z\tERROR\tReconciler error",
		"Klog": "E0102 03:04:05.6 1 a.go:1] failed", "Slog": "time=1 level=ERROR msg=failed", "Logrus": `level=error msg="failed"`,
		"Panic": "panic: assignment to entry in nil map",
	} {
		t.Run(name, func(t *testing.T) {
			r := &Run{Logs: map[string][]byte{"manager-0": []byte("starts\n" + line + "\n" + stack)}}
			NewWithT(t).Expect(r.LogTails()).To(Equal("    the last errors in the log of manager-0:\n        " + line + "\n"))
		})
	}
	g := NewWithT(t)
	g.Expect(ErrorLines([]string{`{"level":"error","error":"no \"x\"","stacktrace":"a.go:1\n\"b\"","at":1}`})).To(
		HaveExactElements(`{"level":"error","error":"no \"x\"","at":1}`))
	r := &Run{Logs: map[string][]byte{"manager-0": []byte("an error of long ago is no level")}}
	g.Expect(r.LogTails()).To(HavePrefix("    the end of the log of manager-0:"))
}
