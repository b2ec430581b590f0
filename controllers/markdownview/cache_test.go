package markdownview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// The cache stores a few KiB of the largest objects that an API server accepts, whatever users
// write into them. That it stores enough is shown by the golden reconciles, which read through it.
func TestCacheHasNoContents(t *testing.T) {
	long := strings.Repeat("x", 256<<10)
	o := appliedObservation(t, view(showing(ofSize(v1beta1.MaxMarkdownBytes)), func(v *v1beta1.MarkdownView) {
		v.Spec.ViewerArgs = slices.Repeat([]v1beta1.ViewerArg{v1beta1.ViewerArg(long[:1024])}, 32)
	}))
	o.configMap.BinaryData = map[string][]byte{"b": []byte(long)}
	o.deployment.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: long}}
	o.deployment.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Reason: long, Message: long}, {Type: "Other", Message: long}}
	o.service.Spec.ExternalIPs = slices.Repeat([]string{"10.0.0.1"}, 1000)
	for _, object := range []client.Object{o.view, o.configMap, o.deployment, o.service} {
		object.SetAnnotations(map[string]string{"example.com/a": long, v1beta1.AnnotationTenantUID: long})
		object.SetFinalizers([]string{"example.com/" + long})
		owners := []metav1.OwnerReference{{APIVersion: long, Kind: long, Name: long, UID: "u", Controller: new(true)}}
		all := maps.Clone(labelsFor(o.view))
		for i := range 1000 {
			owners = append(owners, metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "MarkdownView",
				Name: fmt.Sprint(i, long[:100])})
			all[fmt.Sprintf("leasehold.dev/l%d", i)] = long[:63]
		}
		object.SetOwnerReferences(owners)
		object.SetLabels(all)

		cached := inCache(t, Options{DefaultViewerImage: defaultImage}, object)
		text, err := json.Marshal(cached)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 8<<10 {
			t.Errorf("%T has %d bytes in the cache, want at most 8 KiB", object, len(text))
		}
		if controller := metav1.GetControllerOf(cached); controller == nil || controller.UID != "u" {
			t.Errorf("the controller of %T is %v, want that of the object", object, controller)
		}
	}
}

// Of the children's kinds, the cache stores only objects with the operator's label. It gets the
// tombstones of deleted objects as they are.
func TestCacheSelectsChildren(t *testing.T) {
	for object, by := range CacheByObject(Options{}) {
		_, isView := object.(*v1beta1.MarkdownView)
		if stored := inCache(t, Options{}, object) != nil; stored != isView {
			t.Errorf("%T without a label is stored: %t", object, stored)
		}
		if same, err := by.Transform("a tombstone"); err != nil || same != "a tombstone" {
			t.Errorf("%T: got %v, %v, want the same value", object, same, err)
		}
	}
}
