package explore

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestDifferences(t *testing.T) {
	want := State{
		"a": {".spec.list[0]": "x", ".spec.list[1]": "y", ".status.conditions[Ready].status": "True",
			".metadata.annotations.deployment.kubernetes.io/revision": "1"},
		"b": {".x": "1"},
	}
	for name, tc := range map[string]struct {
		got  State
		want []string
	}{
		"OrderAndRevision": {State{
			"a": {".spec.list[0]": "y", ".spec.list[1]": "x", ".status.conditions[Ready].status": "True",
				".metadata.annotations.deployment.kubernetes.io/revision": "4"},
			"b": {".x": "1"},
		}, nil},
		"Fields": {State{
			"a": {".spec.list[0]": "x", ".status.conditions[Ready].status": "False"},
			"b": {".x": "1", ".y": "2"},
		}, []string{
			`a: spec.list[] is "x", want ["x","y"]`,
			`a: status.conditions[Ready].status is "False", want "True"`,
			`b: y is "2", want absent`,
		}},
		"Objects": {State{"a": want["a"], "c": {}}, []string{"b is missing", "c is there and should not be"}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(differences(want, tc.got, nil)).To(Equal(tc.want))
		})
	}
}

func TestVolatileFields(t *testing.T) {
	g := NewWithT(t)
	state := func(ip, port string) State { return State{"a": {".ips[0]": ip, ".port": port}} }
	ignored := volatileFields(state("10.0.0.1", "80"), state("10.0.0.2", "80"))
	g.Expect(differences(state("10.0.0.3", "80"), state("10.0.0.4", "80"), ignored)).To(BeEmpty())
	g.Expect(differences(state("10.0.0.3", "80"), state("10.0.0.4", "81"), ignored)).
		To(Equal([]string{`a: port is "81", want "80"`}))
}
