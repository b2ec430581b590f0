// SPDX-License-Identifier: Apache-2.0

package viewer_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// mount is a folder in the kubelet's layout of a ConfigMap: each file is a link through ..data, and
// an update is one rename of ..data.
type mount struct {
	dir   string
	files map[string]string
	turn  int
}

// mountHandbook creates the sample book, with added or replaced files.
func mountHandbook(more map[string]string) *mount {
	GinkgoHelper()
	m := &mount{dir: GinkgoT().TempDir(), files: map[string]string{}}
	names, err := filepath.Glob("testdata/handbook/*.md")
	Expect(err).NotTo(HaveOccurred())
	Expect(names).NotTo(BeEmpty())
	for _, name := range names {
		content, err := os.ReadFile(name)
		Expect(err).NotTo(HaveOccurred())
		m.files[filepath.Base(name)] = string(content)
	}
	m.update(more)
	return m
}

// update changes and adds files atomically.
func (m *mount) update(files map[string]string) {
	GinkgoHelper()
	maps.Copy(m.files, files)
	m.turn++
	data := fmt.Sprintf("..turn_%d", m.turn)
	Expect(os.Mkdir(filepath.Join(m.dir, data), 0o755)).To(Succeed())
	for name, content := range m.files {
		Expect(os.WriteFile(filepath.Join(m.dir, data, name), []byte(content), 0o600)).To(Succeed())
		link := filepath.Join(m.dir, name)
		if _, err := os.Lstat(link); err != nil {
			Expect(os.Symlink(filepath.Join("..data", name), link)).To(Succeed())
		}
	}
	Expect(os.Symlink(data, filepath.Join(m.dir, "..data_tmp"))).To(Succeed())
	Expect(os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data"))).To(Succeed())
}
