package markdownview

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
)

// specFields has, for each field of the spec, another valid value and an invalid one.
var specFields = map[string]struct{ other, invalid any }{
	"Markdowns":   {files{"SUMMARY.md": "other"}, files{"a.md": ""}},
	"Replicas":    {int32(3), int32(6)},
	"ViewerImage": {"v:2", "A:b"},
	"ViewerArgs":  {[]v1beta1.ViewerArg{"serve"}, []v1beta1.ViewerArg{"\x7f"}},
}

func setField(field string, value any) func(*v1beta1.MarkdownView) {
	return func(v *v1beta1.MarkdownView) {
		reflect.ValueOf(&v.Spec).Elem().FieldByName(field).Set(reflect.ValueOf(value))
	}
}

// A field that a comparison forgets would have no effect on children, or none on admission.
func TestEachSpecFieldIsCompared(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[v1beta1.MarkdownViewSpec]()) {
		t.Run(field.Name, func(t *testing.T) {
			values, known := specFields[field.Name]
			if !known {
				t.Fatal("there are no values of this field in specFields")
			}
			o := appliedObservation(t, view())
			o.want = desiredOf(t, view(setField(field.Name, values.other)))
			if p := decided(t, o); !p.writes() {
				t.Errorf("with another value: %v, want an update", actions(p))
			}
			changed := view(setField(field.Name, values.other))
			if _, err := (&Webhook{}).ValidateUpdate(t.Context(), view(), changed); err != nil {
				t.Errorf("an update to another value: %v, want it accepted", err)
			}
			wrong := view(setField(field.Name, values.invalid))
			if _, err := (&Webhook{}).ValidateUpdate(t.Context(), view(), wrong); err == nil {
				t.Error("an update to an invalid value is accepted")
			}
			if errs := validate(wrong); len(errs) == 0 {
				t.Error("an invalid value is accepted")
			}
		})
	}
}

// The digest has a place of its own in the cache for each field.
func TestEachDigestFieldIsCached(t *testing.T) {
	for _, digest := range []any{&desired{}, &actual{}} {
		filled := reflect.ValueOf(digest).Elem()
		for i := range filled.NumField() {
			switch field := filled.Field(i); field.Kind() {
			case reflect.String:
				field.SetString(filled.Type().Field(i).Name)
			case reflect.Bool:
				field.SetBool(true)
			default:
				t.Fatalf("%s is a %s, which this test cannot fill", filled.Type().Field(i).Name, field.Kind())
			}
		}
		v := view()
		if err := setDigest(v, digest); err != nil {
			t.Fatal(err)
		}
		got := reflect.New(filled.Type())
		if found, err := cachedDigest(v, got.Interface()); !found || err != nil {
			t.Fatalf("found %t, %v", found, err)
		}
		if !reflect.DeepEqual(digest, got.Interface()) {
			t.Errorf("cached %+v, want %+v", got.Elem(), filled)
		}
	}
}

// The cache keeps these fields of the metadata, and drops the others, which users can fill.
func TestCachedMetadata(t *testing.T) {
	kept := []string{"Namespace", "Name", "UID", "ResourceVersion", "Generation", "CreationTimestamp",
		"DeletionTimestamp", "OwnerReferences"}
	full := metav1.ObjectMeta{
		Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "7", Generation: 3, GenerateName: "g",
		SelfLink:          "s", //nolint:staticcheck // each field is filled, also the deprecated one
		CreationTimestamp: metav1.NewTime(epoch), DeletionTimestamp: new(metav1.NewTime(epoch)),
		DeletionGracePeriodSeconds: new(int64(1)), Labels: map[string]string{"a": "b"},
		Annotations: map[string]string{"a": "b"}, Finalizers: []string{"example.com/f"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(view(), viewKind)},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}
	was, is := reflect.ValueOf(full), reflect.ValueOf(slimMeta(&full))
	for i := range was.NumField() {
		name := was.Type().Field(i).Name
		if was.Field(i).IsZero() {
			t.Fatalf("%s is not filled", name)
		}
		want := reflect.Zero(was.Field(i).Type()).Interface()
		if slices.Contains(kept, name) {
			want = was.Field(i).Interface()
		}
		if diff := cmp.Diff(want, is.Field(i).Interface()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A field of the status is that of a child only if the child is as desired after this reconcile.
// Otherwise the former value remains; a URL without a Service does not.
func TestStatusFollowsTheChildren(t *testing.T) {
	for child, field := range map[kind]struct{ name, now, otherwise string }{
		configMap:  {"ContentHash", desiredOf(t, view()).Content, "former"},
		deployment: {"ViewerImage", "v:1", "former"},
		service:    {"URL", "http://viewer-book.ns.svc", ""},
	} {
		for out, want := range map[outcome]string{unchanged: field.now, created: field.now, changed: field.now,
			waiting: field.otherwise, withheld: field.otherwise, failed: field.otherwise} {
			o := appliedObservation(t, view())
			o.before = v1beta1.MarkdownViewStatus{ContentHash: "former", ViewerImage: "former", URL: "former"}
			res := succeeded()
			res.outcomes[child] = out
			got := reflect.ValueOf(summarize(o, plan{}, res, epoch)).FieldByName(field.name).String()
			if got != want {
				t.Errorf("the %s is %s: %s is %q, want %q", child, out, field.name, got, want)
			}
		}
	}
	o := appliedObservation(t, view(image("")))
	if got := summarize(o, plan{}, succeeded(), epoch).ViewerImage; got != defaultImage {
		t.Errorf("the image of a view that names none is %q, want %q", got, defaultImage)
	}
}
