package compatibility

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/performance/gate/row"
)

// before is the schema that each case changes.
const before = `
type: object
required: [spec]
properties:
  spec:
    type: object
    required: [name]
    properties:
      name: {type: string, minLength: 1, maxLength: 10, pattern: '^a'}
      size: {type: integer, minimum: 1, maximum: 5, default: 1}
      policy: {type: string, enum: [Keep, Drop]}
      admins:
        type: array
        maxItems: 4
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [id]
        items:
          type: object
          required: [id]
          properties:
            id: {type: string}
            kind: {type: string}
          x-kubernetes-validations:
          - {rule: 'self.id != ""', message: no id}
      files: {type: object, maxProperties: 2, additionalProperties: {type: string, maxLength: 100}}
`

func TestCompareSchemas(t *testing.T) {
	t.Parallel()
	type found struct {
		Field, What string
		Verdict     row.Verdict
	}
	for name, test := range map[string]struct {
		change func(spec *apiextensionsv1.JSONSchemaProps)
		want   []found
	}{
		"nothing": {func(*apiextensionsv1.JSONSchemaProps) {}, nil},
		"texts alone": {func(s *apiextensionsv1.JSONSchemaProps) {
			s.Description = "other words"
			edit(s, "admins", func(a *apiextensionsv1.JSONSchemaProps) { a.Items.Schema.XValidations[0].Message = "other words" })
		}, nil},
		"a field gone": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "admins", func(a *apiextensionsv1.JSONSchemaProps) { delete(a.Items.Schema.Properties, "kind") })
		}, []found{{"spec.admins[].kind", "removed", row.Worse}}},
		"a field more": {func(s *apiextensionsv1.JSONSchemaProps) {
			s.Properties["color"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}, []found{{"spec.color", "added", row.New}}},
		"a field more that has to be set": {func(s *apiextensionsv1.JSONSchemaProps) {
			s.Properties["color"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			s.Required = append(s.Required, "color")
		}, []found{{"spec.color", "added", row.New}, {"spec.color", "required", row.Worse}}},
		"a field that may be left out now": {func(s *apiextensionsv1.JSONSchemaProps) { s.Required = nil },
			[]found{{"spec.name", "required", row.Better}}},
		"another type": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "size", func(f *apiextensionsv1.JSONSchemaProps) { f.Type = "string" })
		}, []found{{"spec.size", "type", row.Worse}}},
		"an enum value for another": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "policy", func(f *apiextensionsv1.JSONSchemaProps) { f.Enum[1].Raw = []byte(`"Archive"`) })
		}, []found{{"spec.policy", `enum "Archive"`, row.Better}, {"spec.policy", `enum "Drop"`, row.Worse}}},
		"an enum where there was none": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "name", func(f *apiextensionsv1.JSONSchemaProps) { f.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}} })
		}, []found{{"spec.name", "enum", row.Worse}}},
		"tighter bounds": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "name", func(f *apiextensionsv1.JSONSchemaProps) { *f.MinLength, *f.MaxLength = 2, 9 })
			edit(s, "size", func(f *apiextensionsv1.JSONSchemaProps) { *f.Minimum, *f.Maximum = 2, 4 })
			edit(s, "files", func(f *apiextensionsv1.JSONSchemaProps) { f.MinProperties = new(int64(1)) })
		}, []found{
			{"spec.files", "minProperties", row.Worse},
			{"spec.name", "maxLength", row.Worse}, {"spec.name", "minLength", row.Worse},
			{"spec.size", "maximum", row.Worse}, {"spec.size", "minimum", row.Worse},
		}},
		"wider bounds": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "name", func(f *apiextensionsv1.JSONSchemaProps) { f.MinLength, *f.MaxLength = nil, 11 })
			edit(s, "size", func(f *apiextensionsv1.JSONSchemaProps) { *f.Minimum = -1 })
			edit(s, "admins", func(f *apiextensionsv1.JSONSchemaProps) { f.MaxItems = nil })
		}, []found{
			{"spec.admins", "maxItems", row.Better},
			{"spec.name", "maxLength", row.Better}, {"spec.name", "minLength", row.Better},
			{"spec.size", "minimum", row.Better},
		}},
		"another pattern": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "name", func(f *apiextensionsv1.JSONSchemaProps) { f.Pattern = "^b" })
		}, []found{{"spec.name", "pattern", row.Worse}}},
		"another default, and one more": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "size", func(f *apiextensionsv1.JSONSchemaProps) { f.Default.Raw = []byte("2") })
			edit(s, "policy", func(f *apiextensionsv1.JSONSchemaProps) { f.Default = &apiextensionsv1.JSON{Raw: []byte(`"Keep"`)} })
		}, []found{{"spec.policy", "default", row.New}, {"spec.size", "default", row.Worse}}},
		"a rule more and one less": {func(s *apiextensionsv1.JSONSchemaProps) {
			s.XValidations = apiextensionsv1.ValidationRules{{Rule: "self.size > 1"}}
			edit(s, "admins", func(a *apiextensionsv1.JSONSchemaProps) { a.Items.Schema.XValidations = nil })
		}, []found{{"spec", "validation self.size > 1", row.Worse}, {"spec.admins[]", `validation self.id != ""`, row.Better}}},
		"another way to merge": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "admins", func(a *apiextensionsv1.JSONSchemaProps) { *a.XListType, a.XListMapKeys = "atomic", nil })
		}, []found{{"spec.admins", "list map keys", row.Worse}, {"spec.admins", "list type", row.Worse}}},
		"values of a map": {func(s *apiextensionsv1.JSONSchemaProps) {
			edit(s, "files", func(f *apiextensionsv1.JSONSchemaProps) { *f.AdditionalProperties.Schema.MaxLength = 99 })
		}, []found{{"spec.files{}", "maxLength", row.Worse}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, head := parse(t), parse(t)
			edit(head, "spec", test.change)
			var got []found
			for _, c := range CompareSchemas(base, head) {
				got = append(got, found{c.Field, c.What, c.Verdict})
				if c.Reason == "" {
					t.Errorf("%s %s has no reason", c.Field, c.What)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what was found (-want +got):\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	var s apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(before), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// edit changes a field of an object.
func edit(s *apiextensionsv1.JSONSchemaProps, name string, change func(*apiextensionsv1.JSONSchemaProps)) {
	field := s.Properties[name]
	change(&field)
	s.Properties[name] = field
}
