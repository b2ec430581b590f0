package ownwrites

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func at(name, version string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
}

func TestBehind(t *testing.T) {
	var f Floor
	f.Wrote(at("a", "99"))
	f.Wrote(at("a", "100"))
	for reason, tc := range map[string]struct {
		object client.Object
		want   bool
	}{
		"older":                          {at("a", "99"), true},
		"much older, with fewer digits":  {at("a", "9"), true},
		"what was written":               {at("a", "100"), false},
		"newer":                          {at("a", "101"), false},
		"never written":                  {at("b", "1"), false},
		"a version that cannot be read ": {at("a", "abc"), false},
	} {
		if got := f.Behind(tc.object); got != tc.want {
			t.Errorf("%s: Behind = %v, want %v", reason, got, tc.want)
		}
	}
	f.Forget(client.ObjectKeyFromObject(at("a", "")))
	if f.Behind(at("a", "1")) {
		t.Error("a forgotten object is behind nothing")
	}
}
