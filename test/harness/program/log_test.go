// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
)

func TestLogTo(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "artifacts")
	log, err := LogTo(dir)
	g.Expect(err).NotTo(HaveOccurred())
	stderr := os.Stderr
	read, write, err := os.Pipe()
	g.Expect(err).NotTo(HaveOccurred())
	os.Stderr = write
	klog.Error("the watch has ended")
	os.Stderr = stderr
	g.Expect(write.Close()).To(Succeed())
	g.Expect(log.Close()).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(dir, "client-go.log"))).To(ContainSubstring("the watch has ended"))
	printed := make([]byte, 1)
	n, _ := read.Read(printed)
	g.Expect(n).To(BeZero(), "on standard error")

	g.Expect(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)).To(Succeed())
	_, err = LogTo(filepath.Join(dir, "file"))
	g.Expect(err).To(MatchError(ContainSubstring("making the folder of the log")))
}

func TestSeed(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Seed(7)).To(BeEquivalentTo(7))
	g.Expect(Seed(0)).NotTo(Equal(Seed(0)), "each run draws one")
}
