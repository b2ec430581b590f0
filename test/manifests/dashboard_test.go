package manifests

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// dashboard is what we use of Grafana's model. It is decoded strictly, so what is
// mistyped or only Grafana's export leaves behind is found.
type dashboard struct {
	UID, Title, Description            string
	Tags                               []string
	SchemaVersion, Version             int
	GraphTooltip, FiscalYearStartMonth int
	Editable, LiveNow                  bool
	Refresh, Timezone, WeekStart       string
	Time                               struct{ From, To string }
	Timepicker, Annotations            json.RawMessage
	Links                              []json.RawMessage
	Templating                         struct{ List []variable }
	Panels                             []panel
}

type datasource struct{ Type, UID string }

type variable struct {
	Name, Label, Type, Definition, Regex string
	Query, Current                       json.RawMessage
	Datasource                           *datasource
	Refresh, Sort, Hide                  int
	IncludeAll, Multi, SkipURLSync       bool
	Options                              []json.RawMessage
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Collapsed                bool
	Datasource               datasource
	GridPos                  rectangle
	FieldConfig              struct {
		Defaults struct {
			Unit, NoValue           string
			Decimals                int
			Min, Max                *float64
			Color, Mappings, Custom json.RawMessage
			Thresholds              struct {
				Mode  string
				Steps []struct {
					Color string
					Value *float64
				}
			}
		}
		Overrides []json.RawMessage
	}
	Options         json.RawMessage
	Transformations []json.RawMessage
	Targets         []target
	Panels          []json.RawMessage
}

type target struct {
	RefID, Expr, LegendFormat, EditorMode, Format string
	Datasource                                    datasource
	Range, Instant                                bool
}

type rectangle struct{ X, Y, W, H int }

func (r rectangle) overlaps(o rectangle) bool {
	return r.X < o.X+o.W && o.X < r.X+r.W && r.Y < o.Y+o.H && o.Y < r.Y+r.H
}

// theDashboard is the one that config/grafana puts into a ConfigMap.
func theDashboard(t *testing.T) dashboard {
	t.Helper()
	config := one[*corev1.ConfigMap](t, render(t, "grafana"), "leasehold-dashboard")
	if config.Labels["grafana_dashboard"] != "1" {
		t.Errorf("Grafana's sidecar looks for the label grafana_dashboard=1, not for %v", config.Labels)
	}
	if config.Namespace != operatorNamespace || len(config.Data) != 1 {
		t.Errorf("the ConfigMap is in %q and has %d files; want %q, and one", config.Namespace, len(config.Data),
			operatorNamespace)
	}
	var d dashboard
	decoder := json.NewDecoder(bytes.NewReader([]byte(config.Data["leasehold.json"])))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatalf("decoding the dashboard: %v", err)
	}
	return d
}

func TestDashboardFitsGrafana(t *testing.T) {
	d := theDashboard(t)
	// Links to it are made of the uid. Grafana 10 has schema versions from 38 on.
	if d.UID != "leasehold" || d.SchemaVersion < 38 || d.Title == "" {
		t.Errorf("uid %q, schema version %d and title %q will not do", d.UID, d.SchemaVersion, d.Title)
	}
	source := slices.IndexFunc(d.Templating.List, func(v variable) bool { return v.Type == "datasource" })
	if source < 0 || string(d.Templating.List[source].Query) != `"prometheus"` ||
		d.Templating.List[source].Name != "datasource" {
		t.Error("there is no variable datasource, for a data source of type prometheus")
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" && (v.Datasource == nil || *v.Datasource != theSource) {
			t.Errorf("variable %s asks %v, want %v", v.Name, v.Datasource, theSource)
		}
	}
	rows, ids, titles := 0, map[int]bool{}, map[string]bool{}
	for i, p := range d.Panels {
		if p.ID < 1 || ids[p.ID] {
			t.Errorf("%s has no id of its own: %d", p.Title, p.ID)
		}
		if p.Title == "" || titles[p.Title] {
			t.Errorf("panel %d has no title of its own: %q", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if g := p.GridPos; g.W < 1 || g.H < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > 24 {
			t.Errorf("%s does not fit into Grafana's 24 columns: %+v", p.Title, g)
		}
		for _, other := range d.Panels[:i] {
			if p.GridPos.overlaps(other.GridPos) {
				t.Errorf("%s lies over %s", p.Title, other.Title)
			}
		}
		if p.Type == "row" {
			rows++
			continue
		}
		checkPanel(t, p)
	}
	if rows == 0 || d.Panels[0].Type != "row" {
		t.Error("the dashboard does not begin with a row")
	}
}

var theSource = datasource{"prometheus", "${datasource}"}

// checkPanel checks what a reader needs: what is shown, in which unit, and what it
// means.
func checkPanel(t *testing.T, p panel) {
	t.Helper()
	if !slices.Contains([]string{"stat", "state-timeline", "table", "timeseries"}, p.Type) {
		t.Errorf("%s has the type %q, which not every Grafana has", p.Title, p.Type)
	}
	if p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
		t.Errorf("%s needs a description and a unit", p.Title)
	}
	// The first step is the base and has no value; the others climb.
	for i, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		before := p.FieldConfig.Defaults.Thresholds.Steps[max(0, i-1)].Value
		if step.Color == "" || (step.Value == nil) != (i == 0) || (before != nil && *before >= *step.Value) && i > 1 {
			t.Errorf("step %d of the thresholds of %s is out of order", i, p.Title)
		}
	}
	if p.Datasource != theSource || len(p.Targets) == 0 {
		t.Errorf("%s asks nothing, or %v in place of %v", p.Title, p.Datasource, theSource)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if q.RefID == "" || refs[q.RefID] || q.Expr == "" || q.Datasource != theSource || q.Range == q.Instant {
			t.Errorf("a target of %s is not complete, or not the only %q: %+v", p.Title, q.RefID, q)
		}
		refs[q.RefID] = true
	}
}

// The file in the repository is what people import by hand.
func TestDashboardIsFormatted(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "grafana", "leasehold.json"))
	if err != nil {
		t.Fatal(err)
	}
	var formatted bytes.Buffer
	if err := json.Indent(&formatted, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(formatted.Bytes()), bytes.TrimSpace(text)) {
		t.Error("leasehold.json is not indented by two spaces, so changes of it cannot be read")
	}
}
