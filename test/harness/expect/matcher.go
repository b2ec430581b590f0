// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectMatcher tests one object, and describes in its failure only the tested part.
type objectMatcher struct {
	want  string // completes "Expected <object> ..."
	judge func(client.Object) (ok bool, found string, err error)

	subject, found string // of the last Match, for the messages
}

var _ types.GomegaMatcher = (*objectMatcher)(nil)

// Match implements types.GomegaMatcher.
func (m *objectMatcher) Match(actual any) (bool, error) {
	object, ok := actual.(client.Object)
	if !ok {
		return false, fmt.Errorf("a client.Object is needed, got %T", actual)
	}
	if v := reflect.ValueOf(object); v.Kind() == reflect.Pointer && v.IsNil() {
		return false, fmt.Errorf("a client.Object is needed, got a nil %T", actual)
	}
	m.subject = describe(object)
	ok, found, err := m.judge(object)
	m.found = found
	return ok, err
}

// FailureMessage implements types.GomegaMatcher.
func (m *objectMatcher) FailureMessage(any) string {
	return fmt.Sprintf("Expected\n    %s\n%s, found\n%s", m.subject, m.want, indent(m.found))
}

// NegatedFailureMessage implements types.GomegaMatcher.
func (m *objectMatcher) NegatedFailureMessage(any) string {
	return fmt.Sprintf("Expected\n    %s\nnot %s, found\n%s", m.subject, m.want, indent(m.found))
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}

// describe names an object as people do: kind, then namespace/name.
func describe(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.Indirect(reflect.ValueOf(o)).Type().Name()
	}
	return kind + " " + client.ObjectKeyFromObject(o).String()
}

// contentOf returns the object as maps, whatever its Go type.
func contentOf(o client.Object) (map[string]any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", describe(o), err)
	}
	return content, nil
}

// list writes one item a line, or a word for none.
func list(items []string) string {
	if len(items) == 0 {
		return "none"
	}
	return strings.Join(items, "\n")
}
