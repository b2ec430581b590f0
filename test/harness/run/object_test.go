package run

import (
	"testing"

	dynamicfake "k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

func TestObjectAt(t *testing.T) {
	p := &Prover{dynamic: dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme)}
	for path, want := range map[string]string{
		"/api/v1/namespaces/acme":                            "namespaces acme",
		"/api/v1/namespaces/ns/configmaps/settings":          "configmaps ns/settings",
		"/apis/example.com/v1/things/a/status":               "things.example.com a",
		"/apis/example.com/v1/namespaces/ns/things/a/status": "things.example.com ns/a",
	} {
		o, err := p.objectAt(path)
		if err != nil || o.key.String() != want {
			t.Errorf("objectAt(%q) = %q, %v, want %q", path, o.key, err, want)
		}
	}
	for _, path := range []string{"/api/v1/namespaces/ns/configmaps", "/healthz", "%"} {
		if o, err := p.objectAt(path); err == nil {
			t.Errorf("objectAt(%q) = %q, want an error", path, o.key)
		}
	}
}
