// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"

	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

func TestResourceAt(t *testing.T) {
	p := &Prover{dynamic: dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme)}
	for path, want := range map[string]string{
		"/api/v1/namespaces/acme":                            "namespaces acme",
		"/api/v1/namespaces/ns/configmaps/settings":          "configmaps ns/settings",
		"/api/v1/namespaces/ns/configmaps":                   "configmaps ns",
		"/apis/example.com/v1/things/a/status":               "things.example.com a",
		"/apis/example.com/v1/namespaces/ns/things/a/status": "things.example.com ns/a",
	} {
		o, err := p.resourceAt(path)
		if err != nil || o.key.String() != want {
			t.Errorf("resourceAt(%q) = %q, %v, want %q", path, o.key, err, want)
		}
	}
	if o, err := p.resourceAt("%"); err == nil {
		t.Errorf("resourceAt of no path = %q, want an error", o.key)
	}
}
