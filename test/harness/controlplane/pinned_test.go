package controlplane

import (
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	const module = "k8s.io/kubernetes"
	mod := "require (\n\tk8s.io/kubernetes v1.36.3\n\tk8s.io/kubernetes-csi v1.0.0 // indirect\n)\nreplace k8s.io/kubernetes => ../k\n"
	got, err := Version([]byte(mod), module)
	if err != nil || got != "v1.36.3" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Version([]byte("module x\n"), module); err == nil {
		t.Error("a go.mod without Kubernetes gave no error")
	}
}

func TestLDFlagsStampTheVersion(t *testing.T) {
	for _, want := range []string{"version.gitVersion=v1.36.3", "version.gitMajor=1", "version.gitMinor=36"} {
		if got := LDFlags("v1.36.3"); !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}
