// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// Each message names the necessary change.
func TestParseInit_Refuses(t *testing.T) {
	dir := t.TempDir()
	file := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	NewWithT(t).Expect(os.MkdirAll(file("config", "default"), 0o700)).To(Succeed())
	NewWithT(t).Expect(os.MkdirAll(file("config", "samples"), 0o700)).To(Succeed())
	NewWithT(t).Expect(os.WriteFile(file("manager"), nil, 0o700)).To(Succeed())
	NewWithT(t).Expect(os.WriteFile(file("subject.yaml"), nil, 0o600)).To(Succeed())
	manifests, binary := file("config", "default"), "--binary="+file("manager")
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"NoSubject":       {[]string{"--subject=", manifests, binary}, `--subject="" is not a directory; name a directory for subject.yaml`},
		"File":            {[]string{"--subject=test/prove/subject.yaml", manifests, binary}, "is not a directory"},
		"NoManifests":     {[]string{"--subject=" + dir, binary}, "accepts 1 arg(s), received 0"},
		"NoBinary":        {[]string{"--subject=" + dir, manifests}, "build the operator and set --binary to the program"},
		"NotBuilt":        {[]string{manifests, "--binary=" + file("none")}, "is not an executable program; build the operator first"},
		"Folder":          {[]string{manifests, "--binary=" + dir}, "is not an executable program"},
		"NoSuchManifests": {[]string{file("confg"), binary}, "confg: no such file"},
		"NoSuchSamples":   {[]string{manifests, binary, "--samples=" + dir + "/smples"}, "smples: no such file"},
		"There":           {[]string{"--subject=" + dir, manifests, binary}, "subject.yaml already exists; choose another directory with --subject"},
		"BelowAFile":      {[]string{"--subject=" + file("manager", "a"), manifests, binary}, "cannot be written"},
		"UnknownFlag":     {[]string{"--subjects=" + dir}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(newInit, tc.args...)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.says)))
		})
	}
	g := NewWithT(t)
	o, err := parse(newInit, "--subject="+dir, manifests, binary, "--overwrite")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Samples).To(Equal(file("config", "samples")), "they are beside the manifests")
}
