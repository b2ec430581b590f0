// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"fmt"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// healthOf has the health of Argo CD by kstatus: an object that only a person can help is Degraded.
var healthOf = map[status.Status]string{
	status.CurrentStatus:    "Healthy",
	status.InProgressStatus: "Progressing",
	status.FailedStatus:     "Degraded",
}

// Argo CD's health agrees with kstatus for each combination of conditions, but that of a paused
// object, for which kstatus has no word.
func TestArgoCDHealth(t *testing.T) {
	for _, ready := range []string{"True", "False", "Unknown"} {
		for _, stalled := range []string{"", "True", "False"} {
			for _, paused := range []string{"", "True", "False"} {
				for _, observed := range []int64{-1, 1, 2} {
					o := conditioned(map[string]string{"Ready": ready, "Stalled": stalled, "Paused": paused}, observed)
					result, err := status.Compute(&unstructured.Unstructured{Object: o})
					if err != nil {
						t.Fatal(err)
					}
					want := healthOf[result.Status]
					if paused == "True" {
						want = "Suspended"
					}
					if got := health(t, o); got != want || want == "" {
						t.Errorf("Ready %q, Stalled %q, Paused %q at generation %d of 2: %s, want %s (kstatus %s)", ready,
							stalled, paused, observed, got, want, result.Status)
					}
				}
			}
		}
	}
	for _, unreported := range []map[string]any{
		{"metadata": map[string]any{"generation": int64(1)}},
		conditioned(nil, -1), // the default of the status
	} {
		if got := health(t, unreported); got != "Progressing" {
			t.Errorf("before the first report: %s, want Progressing", got)
		}
	}
}

// conditioned returns an object of generation 2 with the conditions that have a status.
func conditioned(statuses map[string]string, observed int64) map[string]any {
	conditions := []any{map[string]any{"type": "Available", "status": "False", "message": "another condition"}}
	for kind, is := range statuses {
		if is != "" {
			conditions = append(conditions, map[string]any{"type": kind, "status": is, "message": kind + " " + is})
		}
	}
	return map[string]any{
		"apiVersion": "leasehold.dev/v1beta1", "kind": "Tenant",
		"metadata": map[string]any{"name": "a", "generation": int64(2)},
		"status":   map[string]any{"observedGeneration": observed, "conditions": conditions},
	}
}

// health runs the health check of docs/operations.md as Argo CD does: obj is the object, the
// libraries are those of Argo CD's default, and the result has a status and a message.
func health(t *testing.T, object map[string]any) string {
	t.Helper()
	var data struct {
		Customizations string `json:"resource.customizations"`
	}
	var checks map[string]struct {
		Script string `json:"health.lua"`
	}
	if err := yaml.UnmarshalStrict([]byte(block(t, "### Argo CD")), &data); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(data.Customizations), &checks); err != nil {
		t.Fatal(err)
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	state.SetGlobal("obj", luaValue(state, object))
	if err := state.DoString(checks["leasehold.dev/*"].Script); err != nil {
		t.Fatal(err)
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the health check returns a %s", state.Get(-1).Type())
	}
	if message, ok := result.RawGetString("message").(lua.LString); !ok || message == "" {
		t.Errorf("the health check gives no message for %v", object)
	}
	return result.RawGetString("status").String()
}

// luaValue converts a value of decoded JSON.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, field := range value {
			table.RawSetString(key, luaValue(state, field))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(luaValue(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case nil:
		return lua.LNil
	default:
		panic(fmt.Sprintf("no JSON: %T", value))
	}
}
