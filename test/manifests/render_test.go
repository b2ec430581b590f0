// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"leasehold.dev/api/v1beta1"
)

const (
	operatorNamespace = "leasehold-system"
	serviceAccount    = "leasehold-controller-manager"
)

// object is a rendered object of any kind.
type object interface {
	runtime.Object
	metav1.Object
}

// render returns the objects that kustomize renders from config/<dir>, decoded strictly into Go
// types where they exist: an unknown or repeated field fails the test.
func render(t *testing.T, dir string) []object {
	t.Helper()
	return decode(t, renderedOverlay(t, dir))
}

var (
	renderingsMu sync.Mutex
	renderings   = map[string][]byte{} // by directory
)

// renderedOverlay returns what kustomize renders from config/<dir>. A component is rendered with
// config/default, as users apply it.
func renderedOverlay(t *testing.T, dir string) []byte {
	t.Helper()
	renderingsMu.Lock()
	defer renderingsMu.Unlock()
	if _, done := renderings[dir]; !done {
		path := filepath.Join("..", "..", "config", dir)
		if dir == "fencing/off" {
			path = filepath.Join("testdata", "fencing-off")
		}
		renderings[dir] = kustomize(t, path)
	}
	return renderings[dir]
}

// kustomize builds dir with the version that hack/tools pins.
func kustomize(t *testing.T, dir string) []byte {
	t.Helper()
	absolute, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "tool", "kustomize", "build", absolute)
	cmd.Dir = filepath.Join("..", "..", "hack", "tools")
	cmd.Env = append(os.Environ(), "GOWORK=off") // a module that go.work does not have
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("rendering %s: %v\n%s", dir, err, &stderr)
	}
	return out
}

func decode(t *testing.T, rendered []byte) []object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

	var objects []object
	for _, document := range separate(t, rendered) {
		obj, _, err := strict.Decode(document, nil, nil)
		if runtime.IsNotRegisteredError(err) { // kinds of other projects
			foreign := &unstructured.Unstructured{}
			err = yaml.Unmarshal(document, &foreign.Object)
			obj = foreign
		}
		if err != nil {
			t.Fatalf("decoding: %v\n%s", err, document)
		}
		objects = append(objects, obj.(object))
	}
	return objects
}

// separate splits rendered into its documents.
func separate(t *testing.T, rendered []byte) [][]byte {
	t.Helper()
	var separated [][]byte
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(rendered)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return separated
		}
		if err != nil {
			t.Fatal(err)
		}
		separated = append(separated, document)
	}
}

// all returns the objects of type T.
func all[T object](objects []object) []T {
	var found []T
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// one returns the object of type T with this name.
func one[T object](t *testing.T, objects []object, name string) T {
	t.Helper()
	var found []T
	for _, o := range all[T](objects) {
		if o.GetName() == name {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("found %d objects of type %T called %q, want 1", len(found), *new(T), name)
	}
	return found[0]
}

// foreign returns the object of a kind without a Go type here.
func foreign(t *testing.T, objects []object, kind string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range all[*unstructured.Unstructured](objects) {
		if o.GetKind() == kind {
			return o
		}
	}
	t.Fatalf("no %s was rendered", kind)
	return nil
}

// into converts a field of a foreign object to a Go value.
func into[T any](t *testing.T, o *unstructured.Unstructured, path ...string) T {
	t.Helper()
	value, found, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil || !found {
		t.Fatalf("%s has no %s (%v)", o.GetKind(), strings.Join(path, "."), err)
	}
	var typed T
	encoded, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(encoded, &typed)
	}
	if err != nil {
		t.Fatalf("reading %s of %s: %v", strings.Join(path, "."), o.GetKind(), err)
	}
	return typed
}
