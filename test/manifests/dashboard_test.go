// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// dashboard is the part of Grafana's model that is tested here. hack/monitoring tests the queries.
type dashboard struct {
	UID        string
	Templating struct{ List []struct{ Name, Type string } }
	Panels     []struct {
		Type, Title, Description string
		Datasource               struct{ UID string }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct{ Expr string }
	}
}

// theDashboard returns the dashboard in config/grafana's ConfigMap.
func theDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	config := one[*corev1.ConfigMap](t, render(t, "grafana"), "leasehold-dashboard")
	if err := json.Unmarshal([]byte(config.Data["leasehold.json"]), &d); err != nil {
		t.Fatalf("decoding the dashboard: %v", err)
	}
	return d
}

// Each panel has a title, a unit and a description, and uses the cluster's data source. The sidecar selects the
// ConfigMap by its label.
func TestDashboardFitsGrafana(t *testing.T) {
	d := theDashboard(t)
	config := one[*corev1.ConfigMap](t, render(t, "grafana"), "leasehold-dashboard")
	if config.Labels["grafana_dashboard"] != "1" {
		t.Errorf("the sidecar does not select the labels %v", config.Labels)
	}
	v := d.Templating.List
	if d.UID != "leasehold" || len(v) == 0 || v[0].Type != "datasource" || v[0].Name != "datasource" {
		t.Errorf("links need the uid leasehold, not %q, and panels the variable datasource first of %v", d.UID, v)
	}
	for _, p := range d.Panels {
		if p.Type != "row" && (p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 ||
			p.Datasource.UID != "${datasource}") {
			t.Errorf("%s needs a description, a unit, a target and the data source of the variable", p.Title)
		}
	}
}
