// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// A run has what its replicas wrote during the run, and all of replicas that started in it.
func TestLogs_OfOneRun(t *testing.T) {
	g := NewWithT(t)
	s := newTestbed(t)
	dir := t.TempDir()
	write := func(r *replica, text string) {
		path := filepath.Join(dir, r.process.Name())
		r.process.(*fakeProcess).log = path
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = file.WriteString(text)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(file.Close()).To(Succeed())
	}
	first, second := s.replicas[0], s.replicas[1]
	write(first, "before\n")
	sizes, err := s.logSizes()
	g.Expect(err).NotTo(HaveOccurred())
	write(first, "during\n")
	write(second, "new\n")
	logs, err := s.logsFrom(sizes)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(logs).To(Equal(map[string][]byte{first.process.Name(): []byte("during\n"),
		second.process.Name(): []byte("new\n")}))
}
