// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"leasehold.dev/test/harness/subject"
)

// Only a subject that has a chart or uses S3 makes prove build helm or the S3 server, once.
func TestEnsure_BuildsWhatTheSubjectNeeds(t *testing.T) {
	for name, tc := range map[string]struct {
		manifests, external string
		want                []string
	}{
		"manifests": {manifests: "config"},
		"chart":     {manifests: "chart.tgz", want: []string{helmVariable}},
		"S3":        {manifests: "config", external: "external: {s3: {}}", want: []string{s3Variable}},
		"both": {manifests: "chart.tgz", external: "external: {s3: {}}",
			want: []string{helmVariable, s3Variable}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			builds := fakePrograms(t)
			file := filepath.Join(t.TempDir(), "subject.yaml")
			text := "name: a\nbinary: a\nmanifests: " + tc.manifests + "\ncontract: {lease: {name: a}, kinds: [{resource: as}]}\n" +
				"scenarios: [scenarios]\n" + tc.external
			g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
			f, err := subject.Read(file)
			g.Expect(err).NotTo(HaveOccurred())
			for range 2 {
				for _, variable := range []string{helmVariable, s3Variable} {
					t.Setenv(variable, "")
				}
				var output bytes.Buffer
				g.Expect(ensure(t.Context(), f.NeedsHelm(), f.NeedsS3(), &output)).To(Succeed())
				var set []string
				for _, variable := range []string{helmVariable, s3Variable} {
					if path := os.Getenv(variable); path != "" {
						g.Expect(path).To(BeARegularFile())
						set = append(set, variable)
					}
				}
				g.Expect(set).To(Equal(tc.want))
			}
			g.Expect(builds()).To(HaveLen(len(tc.want)), "the second run uses the programs of the first")
		})
	}
}

// A wrong path ends prove before it looks for a control plane, which it might build. Manifests are rendered after
// it: a new machine has no other kubectl for a kustomization.
func TestProve_LooksForTheControlPlaneBetweenPathsAndManifests(t *testing.T) {
	for manifests, want := range map[string]types.GomegaMatcher{
		"confg":  ContainSubstring("confg: no such file"),
		"config": And(ContainSubstring("no-control-plane"), Not(ContainSubstring("rendering"))),
	} {
		t.Run(manifests, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			t.Setenv(assetsVariable, filepath.Join(dir, "no-control-plane"))
			for name, text := range map[string]string{
				"subject.yaml": "name: a\nbinary: a\nmanifests: " + manifests +
					"\ncontract: {lease: {name: a}, kinds: [{resource: as}]}\nscenarios: [life.yaml]\n",
				"config/kustomization.yaml": "resources: []\n",
				"life.yaml":                 "name: life\ninvariants: [convergence]\nsteps: [{name: wait, quiesce: {for: 1s}}]\n",
			} {
				g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)).To(Succeed())
				g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
			}
			err := proveTo(t.Context(), options{subject: filepath.Join(dir, "subject.yaml"), manager: os.Args[0]}, io.Discard)
			g.Expect(err).To(MatchError(want))
		})
	}
}

// What the user names and is missing is an error, and not built.
func TestEnsure_KeepsWhatTheUserNames(t *testing.T) {
	g := NewWithT(t)
	builds := fakePrograms(t)
	t.Setenv(helmVariable, filepath.Join(t.TempDir(), "none"))
	g.Expect(ensureHelm(t.Context(), &bytes.Buffer{})).To(MatchError(ContainSubstring("none")))
	g.Expect(builds()).To(BeEmpty())
}

// fakePrograms puts the test where there are a control plane, an empty cache folder and a go that
// writes an empty program in place of an installed one. It returns the calls of go.
func fakePrograms(t *testing.T) (builds func() []string) {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"} {
		g.Expect(os.WriteFile(name, nil, 0o700)).To(Succeed())
	}
	t.Setenv(assetsVariable, dir)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	log := filepath.Join(dir, "builds")
	script := "#!/bin/sh\necho \"$@\" >>" + log + "\nfor package; do :; done\nprogram=${package##*/}\n" +
		": >\"$GOBIN/${program%@*}\"\n"
	g.Expect(os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700)).To(Succeed())
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() []string {
		text, err := os.ReadFile(log)
		if os.IsNotExist(err) {
			return nil
		}
		g.Expect(err).NotTo(HaveOccurred())
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}
