package markdownview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
)

// cachedObservation returns an observation with the objects as the manager's cache stores them.
func cachedObservation(t testing.TB, o *observation) *observation {
	t.Helper()
	out := *o
	out.view = slim(t, o.view)
	out.want = desiredOf(t, out.view)
	if o.configMap != nil {
		out.configMap = slim(t, o.configMap)
	}
	if o.deployment != nil {
		out.deployment = slim(t, o.deployment)
	}
	if o.service != nil {
		out.service = slim(t, o.service)
	}
	return &out
}

// slim applies the cache's transform twice, as a reflector does with streamed objects.
func slim[T client.Object](t testing.TB, o T) T {
	t.Helper()
	for kind, by := range CacheByObject(Options{DefaultViewerImage: defaultImage}) {
		if fmt.Sprintf("%T", kind) != fmt.Sprintf("%T", o) {
			continue
		}
		var out any = o.DeepCopyObject()
		for range 2 {
			var err error
			if out, err = by.Transform(out); err != nil {
				t.Fatal(err)
			}
		}
		return out.(T)
	}
	t.Fatalf("the cache has no transform for %T", o)
	return o
}

// The cache stores a few KiB of the largest objects that an API server accepts, whatever users
// write into them.
func TestCacheHasNoContents(t *testing.T) {
	long := strings.Repeat("x", 256<<10)
	stuffed := func(o metav1.Object) {
		o.SetAnnotations(map[string]string{"example.com/a": long, v1beta1.AnnotationTenantUID: long})
		o.SetFinalizers([]string{"example.com/" + long})
		var owners []metav1.OwnerReference
		for i := range 1000 {
			owners = append(owners, metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "MarkdownView",
				Name: fmt.Sprint(i, long[:100])})
		}
		o.SetOwnerReferences(append(owners,
			metav1.OwnerReference{APIVersion: long, Kind: long, Name: long, UID: "u", Controller: new(true)}))
		for i := range 200 {
			all := maps.Clone(o.GetLabels())
			if all == nil {
				all = map[string]string{}
			}
			all[fmt.Sprintf("leasehold.dev/l%d", i)] = long[:63]
			o.SetLabels(all)
		}
	}
	o := appliedObservation(t, view(showing(ofSize(v1beta1.MaxMarkdownBytes)), func(v *v1beta1.MarkdownView) {
		v.Spec.ViewerArgs = slices.Repeat([]v1beta1.ViewerArg{v1beta1.ViewerArg(long[:1024])}, 32)
	}))
	o.configMap.BinaryData = map[string][]byte{"b": []byte(long)}
	o.deployment.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: long}}
	o.deployment.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Reason: long, Message: long}, {Type: "Other", Message: long}}
	o.service.Spec.ExternalIPs = slices.Repeat([]string{"10.0.0.1"}, 1000)
	for _, object := range []client.Object{o.view, o.configMap, o.deployment, o.service} {
		stuffed(object)
	}
	c := cachedObservation(t, o)
	for _, object := range []client.Object{c.view, c.configMap, c.deployment, c.service} {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 8<<10 {
			t.Errorf("%T has %d bytes in the cache, want at most 8 KiB", object, len(text))
		}
	}
	if controller := metav1.GetControllerOf(c.configMap); controller == nil || controller.UID != "u" {
		t.Errorf("the controller is %v, want that of the object", controller)
	}
}

// A decision from cached objects equals the decision from complete objects.
func TestDecide_equal_from_cache_and_live_objects(t *testing.T) {
	now := metav1.Now()
	for reason, change := range map[string]func(*observation){
		"nothing":           func(*observation) {},
		"a value":           func(o *observation) { takenOver(o.configMap, "f:a.md"); o.configMap.Data["a.md"] = "y" },
		"a key removed":     func(o *observation) { delete(o.configMap.Data, "a.md"); takenOver(o.configMap, "f:a.md") },
		"a key added":       func(o *observation) { o.configMap.Data["b.md"] = "" },
		"a binary added":    func(o *observation) { o.configMap.BinaryData = map[string][]byte{"b": nil} },
		"a label":           func(o *observation) { takenOver(o.service, "f:app.kubernetes.io/part-of") },
		"an owner":          func(o *observation) { o.configMap.OwnerReferences = nil },
		"a predecessor's":   func(o *observation) { o.deployment.OwnerReferences[0].UID = "former" },
		"terminating":       func(o *observation) { o.service.DeletionTimestamp = &now },
		"no field owners":   func(o *observation) { o.deployment.ManagedFields = nil },
		"a forged digest":   func(o *observation) { o.configMap.ManagedFields = nil; o.configMap.Data["a.md"] = "forged" },
		"a container added": func(o *observation) { addContainer(o.deployment) },
		"a port added": func(o *observation) {
			o.service.Spec.Ports = append(o.service.Spec.Ports, corev1.ServicePort{Port: 81})
		},
		"fields of no meaning": func(o *observation) {
			o.deployment.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
		},
	} {
		t.Run(reason, func(t *testing.T) {
			o := appliedObservation(t, view())
			change(o)
			full, fromCache := decided(t, o), decided(t, cachedObservation(t, o))
			if actions(full) != actions(fromCache) {
				t.Errorf("from the cache %v, from the objects %v", actions(fromCache), actions(full))
			}
		})
	}
}

// A new default image, such as one with a security fix, reaches existing views. It does not replace
// an image that a user has set.
func TestDefaultImage_changes_existing_views(t *testing.T) {
	for image, want := range map[string][3]action{"": {keep, update, keep}, "own:1": {keep, keep, keep}} {
		o := appliedObservation(t, view(func(v *v1beta1.MarkdownView) { v.Spec.ViewerImage = image }))
		var err error
		if o.want, err = desiredBy(o.view, "leasehold-viewer:fixed"); err != nil {
			t.Fatal(err)
		}
		if got := actions(decided(t, o)); got != want {
			t.Errorf("image %q: got %v, want %v", image, got, want)
		}
	}
}

// takenOver transfers an applied field to another field manager.
func takenOver(o client.Object, path string) {
	fields := o.GetManagedFields()
	text := fields[0].FieldsV1.GetRawString()
	fields[0].FieldsV1.SetRawString(strings.Replace(strings.Replace(text, `"`+path+`":{},`, "", 1),
		`,"`+path+`":{}`, "", 1))
	o.SetManagedFields(fields)
}

func addContainer(d *appsv1.Deployment) {
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "miner"})
}

// Any user can forge this operator's field manager, with any fields. The decision must not fail
// because of that.
func TestDigest_forged_field_managers(t *testing.T) {
	forged := func(o client.Object, fields string) {
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: string(apply.FieldOwner), Operation: metav1.ManagedFieldsOperationApply,
			APIVersion: o.GetObjectKind().GroupVersionKind().GroupVersion().String(),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}})
	}
	o := appliedObservation(t, view())
	addContainer(o.deployment)
	o.deployment.APIVersion, o.service.APIVersion, o.configMap.APIVersion = "apps/v1", "v1", "v1"
	forged(o.deployment,
		`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"viewer\"}":{"f:ports":{"k:{\"containerPort\":3000,\"protocol\":\"TCP\"}":{}}}}}}}}`)
	forged(o.service, `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{}}}}`)
	forged(o.configMap, `{"f:data":{}}`)
	if got := actions(decided(t, cachedObservation(t, o))); got != [3]action{update, update, update} {
		t.Errorf("got %v, want all corrected", got)
	}
	for _, fields := range []string{`{"f:spec":{}}`, `{"f:spec":{"f:template":{}}}`,
		`{"f:spec":{"f:template":{"f:metadata":{"f:labels":{"f:app.kubernetes.io/name":{}}}}}}`} {
		forged(o.deployment, fields)
		if got := actions(decided(t, cachedObservation(t, o))); got != [3]action{update, update, update} {
			t.Errorf("fields %s: got %v, want all corrected", fields, got)
		}
	}
}

// The cache keeps all fields of the Deployment that the status of a view reports.
func TestCacheKeepsRolloutStatus(t *testing.T) {
	d := appliedObservation(t, view()).deployment
	progressing := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse,
		Reason: "R", Message: "M"}
	want := appsv1.DeploymentStatus{
		ObservedGeneration: 7, Replicas: 6, UpdatedReplicas: 5, AvailableReplicas: 4,
		Conditions: []appsv1.DeploymentCondition{progressing},
	}
	d.Status = *want.DeepCopy()
	d.Status.ReadyReplicas, d.Status.UnavailableReplicas = 3, 2
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
		progressing}
	if diff := cmp.Diff(want, slim(t, d).Status); diff != "" {
		t.Errorf("the status in the cache (-want +got):\n%s", diff)
	}
	if got := desiredReplicas(slim(t, view(replicas(3)))); got != 3 {
		t.Errorf("%d desired viewers in the cache, want 3", got)
	}
}

func TestCacheSelectsChildren(t *testing.T) {
	o := appliedObservation(t, view())
	selected := 0
	for object, by := range CacheByObject(Options{}) {
		var child client.Object
		switch object.(type) {
		case *corev1.ConfigMap:
			child = o.configMap
		case *appsv1.Deployment:
			child = o.deployment
		case *corev1.Service:
			child = o.service
		default:
			continue
		}
		if by.Label == nil || !by.Label.Matches(labels.Set(child.GetLabels())) || by.Label.Matches(labels.Set{}) {
			t.Errorf("%T: the selector %v takes in too little or too much", object, by.Label)
		}
		selected++
	}
	if selected != 3 {
		t.Errorf("%d kinds are selected by label, want 3", selected)
	}
	for _, transform := range []func(any) (any, error){slimConfigMap, slimDeployment, slimService} {
		if same, err := transform("a tombstone"); err != nil || same != "a tombstone" {
			t.Errorf("got %v, %v, want the same value", same, err)
		}
	}
	var _ runtime.Object = o.view
}
