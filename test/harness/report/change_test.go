// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestChanges(t *testing.T) {
	object := func(fields map[string]any) map[string]any {
		return map[string]any{"spec": fields, "metadata": map[string]any{"uid": "u", "resourceVersion": fields["version"]}}
	}
	withList := func(items ...any) map[string]any { return object(map[string]any{"list": items}) }
	condition := func(more ...string) any {
		c := map[string]any{"type": "Ready", "status": "False", "reason": "Why"}
		for i := 0; i < len(more); i += 2 {
			c[more[i]] = more[i+1]
		}
		return c
	}
	for name, tc := range map[string]struct {
		before, after map[string]any
		want          []string
	}{
		"Nothing": {object(map[string]any{"a": "x"}), object(map[string]any{"a": "x"}), nil},
		"Bookkeeping": {object(map[string]any{}),
			map[string]any{"metadata": map[string]any{"uid": "u", "resourceVersion": "9", "generation": int64(2)},
				"spec": map[string]any{}}, nil},
		"ByPath": {object(map[string]any{"b": "x", "a": int64(1), "c": true}),
			object(map[string]any{"b": "y", "a": int64(1), "d": nil}),
			[]string{"spec.b: x → y", "− spec.c: true", "+ spec.d: <nil>"}},
		"Values": {withList("x", "y"), withList("x", "z"), []string{"spec.list[]: x, y → x, z"}},
		"NamedItems": {withList(map[string]any{"name": "n", "v": "1"}),
			withList(map[string]any{"name": "m", "v": "1"}, map[string]any{"name": "n", "v": "2"}),
			[]string{"+ spec.list[m].name: m", "+ spec.list[m].v: 1", "spec.list[n].v: 1 → 2"}},
		"NamelessItems": {withList(map[string]any{"v": "1"}), withList(map[string]any{"v": "2"}),
			[]string{"spec.list[0].v: 1 → 2"}},
		"ConditionComes": {thing("x"), thing("x", condition()), []string{"+ Ready: False (Why)"}},
		"ConditionGoes":  {thing("x", condition()), thing("x"), []string{"− Ready"}},
		"ConditionFlips": {thing("x", condition()), thing("x", condition("status", "True", "reason", "Done", "message", "m")),
			[]string{"Ready: False (Why) → True (Done)"}},
		"ConditionSays": {thing("x", condition()), thing("x", condition("message", "m")),
			[]string{"Ready is False (Why) as before, with another message"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := changes(&unstructured.Unstructured{Object: tc.before}, &unstructured.Unstructured{Object: tc.after})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
