package markdownview

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/controllers/internal/reconciler"
)

// A child is pruned only at the version that was judged. Since then another object may have its
// name, or another owner or other entries may have come.
func TestPruneOnlyWhatWasJudged(t *testing.T) {
	child := func(with func(*corev1.ConfigMap)) *corev1.ConfigMap {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid", ResourceVersion: "5"},
			Data: map[string]string{"stray.md": ""}}
		with(c)
		return c
	}
	for name, tc := range map[string]struct {
		live     []client.Object
		conflict bool
	}{
		"the same":         {[]client.Object{child(func(*corev1.ConfigMap) {})}, false},
		"a newer version":  {[]client.Object{child(func(c *corev1.ConfigMap) { c.ResourceVersion = "6" })}, true},
		"an older version": {[]client.Object{child(func(c *corev1.ConfigMap) { c.ResourceVersion = "4" })}, true},
		"another object":   {[]client.Object{child(func(c *corev1.ConfigMap) { c.UID = "other" })}, true},
		"none":             {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			patches := 0
			c := interceptor.NewClient(fakeBuilder(t, tc.live...).Build(), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
					opts ...client.PatchOption) error {
					patches++
					return c.Patch(ctx, o, p, opts...)
				},
			})
			r := &Reconciler{Client: c, Live: c}
			judged := child(func(*corev1.ConfigMap) {})
			pruned, err := prune(t.Context(), r, &reconciler.ReadYourWrites{}, judged, &corev1.ConfigMap{},
				func(live *corev1.ConfigMap) (*corev1.ConfigMap, error) { return prunedConfigMap(live), nil })
			if apierrors.IsConflict(err) != tc.conflict || (err != nil) != tc.conflict || (patches == 0) != tc.conflict {
				t.Fatalf("%d patches, %v; want a conflict and no patch: %t", patches, err, tc.conflict)
			}
			if err == nil && (len(pruned.Data) > 0 || pruned.ResourceVersion == judged.ResourceVersion) {
				t.Errorf("pruned to %v at version %s", pruned.Data, pruned.ResourceVersion)
			}
		})
	}
}

// An entry is the operator's own only if each field of its key is equal.
func TestPruneComparesTheWholeKey(t *testing.T) {
	o := appliedObservation(t, view())
	want := render(o.view, defaultImage)
	port, own := o.service.Spec.Ports[0], o.deployment.Spec.Template.Spec.Containers[0].Ports[0]
	for name, change := range map[string]func(*corev1.ServicePort, *corev1.ContainerPort){
		"number":   func(s *corev1.ServicePort, c *corev1.ContainerPort) { s.Port++; c.ContainerPort++ },
		"protocol": func(s *corev1.ServicePort, c *corev1.ContainerPort) { s.Protocol, c.Protocol = "UDP", "UDP" },
	} {
		t.Run(name, func(t *testing.T) {
			s, d := o.service.DeepCopy(), o.deployment.DeepCopy()
			foreignPort, foreignOwn := port, own
			change(&foreignPort, &foreignOwn)
			s.Spec.Ports = append(s.Spec.Ports, foreignPort)
			ports := &d.Spec.Template.Spec.Containers[0].Ports
			*ports = append(*ports, foreignOwn)
			if pruned := prunedService(s, want.service); pruned == nil {
				t.Error("the Service has no foreign port")
			} else if diff := cmp.Diff([]corev1.ServicePort{port}, pruned.Spec.Ports); diff != "" {
				t.Errorf("ports of the Service (-want +got):\n%s", diff)
			}
			for _, differs := range []bool{true, false} {
				if pruned := prunedDeployment(d, want.deployment, differs); pruned == nil {
					t.Error("the Deployment has no foreign port")
				} else if diff := cmp.Diff([]corev1.ContainerPort{own},
					pruned.Spec.Template.Spec.Containers[0].Ports); diff != "" {
					t.Errorf("ports of the Deployment (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// While applied fields differ, containers, volumes and mounts stay, as they refer to each other.
func TestPruneWaitsForAppliedFields(t *testing.T) {
	o := appliedObservation(t, view())
	pod := &o.deployment.Spec.Template.Spec
	pod.Containers = append(pod.Containers, corev1.Container{Name: "miner"})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "host"})
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "host", MountPath: "/host"})
	lists := func(d *appsv1.Deployment) string {
		p := d.Spec.Template.Spec
		return fmt.Sprint(len(p.Containers), len(p.Volumes), len(p.Containers[0].VolumeMounts))
	}
	want := render(o.view, defaultImage).deployment
	if got := prunedDeployment(o.deployment, want, true); got != nil {
		t.Errorf("pruned to %s while applied fields differ", lists(got))
	}
	if got := lists(prunedDeployment(o.deployment, want, false)); got != "1 2 2" {
		t.Errorf("containers, volumes and mounts: %s, want 1 2 2", got)
	}
}
