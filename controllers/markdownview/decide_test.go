package markdownview

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/controllers/internal/apply"
)

func decided(t *testing.T, o *observation) plan {
	t.Helper()
	p, err := decide(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// actions returns the actions of a plan.
func actions(p plan) [3]action {
	return [3]action{p.steps[0].action, p.steps[1].action, p.steps[2].action}
}

func TestDecide(t *testing.T) {
	now := metav1.Now()
	orphaned := func(o metav1.Object) { o.SetOwnerReferences(nil) }
	for reason, tc := range map[string]struct {
		change func(*observation)
		want   [3]action
	}{
		"a foreign terminating": {func(o *observation) {
			orphaned(o.deployment)
			o.deployment.DeletionTimestamp = &now
		}, [3]action{keep, conflict, keep}},
		"other content desired": {func(o *observation) {
			o.view.Spec.Markdowns["a.md"] = "other"
			o.want = desiredOf(t, o.view)
		}, [3]action{update, update, keep}},
		"other replicas desired": {func(o *observation) {
			o.view.Spec.Replicas = 3
			o.want = desiredOf(t, o.view)
		}, [3]action{keep, update, keep}},
		"fields defaulted by the API server": {func(o *observation) {
			o.deployment.Spec.ProgressDeadlineSeconds = new(int32(600))
			o.deployment.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
			o.service.Spec.ClusterIP = "10.0.0.1"
		}, [3]action{keep, keep, keep}},
		"a key added": {func(o *observation) { o.configMap.Data["stray.md"] = "" }, [3]action{update, keep, keep}},
		"a binary added": {func(o *observation) { o.configMap.BinaryData = map[string][]byte{"x": nil} },
			[3]action{update, keep, keep}},
		"managed fields removed": {func(o *observation) { o.service.ManagedFields = nil }, [3]action{keep, keep, update}},
	} {
		t.Run(reason, func(t *testing.T) {
			o := appliedObservation(t, view())
			tc.change(o)
			if got := actions(decided(t, o)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Managed fields that cannot be decoded are an error and not drift: the API server would reject the
// apply.
func TestDecide_unreadable_managed_fields(t *testing.T) {
	o := appliedObservation(t, view())
	o.deployment.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: string(apply.FieldOwner), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"not a path":{}}`)}}
	if p, err := decide(o); err == nil {
		t.Errorf("got the plan %v, want an error", p)
	}
}

func TestPruneKeepsAppliedFields(t *testing.T) {
	o := appliedObservation(t, view())
	want := render(o.view, defaultImage)
	if prunedDeployment(o.deployment, want.deployment, false) != nil || prunedService(o.service, want.service) != nil {
		t.Fatal("an applied field was found to be foreign")
	}
	pod := &o.deployment.Spec.Template.Spec
	pod.Containers = append(pod.Containers, corev1.Container{Name: "miner"})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "host"})
	pod.Containers[0].Ports = append(pod.Containers[0].Ports, corev1.ContainerPort{Name: "other", ContainerPort: 1})
	o.service.Spec.Ports[0].Port = 81

	inTheWay := prunedDeployment(o.deployment, want.deployment, true)
	if got := inTheWay.Spec.Template.Spec; len(got.Containers[0].Ports) != 1 || len(got.Containers) != 2 ||
		len(got.Volumes) != 3 {
		t.Errorf("while applied fields differ: %d ports, %d containers, %d volumes, want 1, 2, 3",
			len(got.Containers[0].Ports), len(got.Containers), len(got.Volumes))
	}
	bare := prunedDeployment(o.deployment, want.deployment, false)
	if got := bare.Spec.Template.Spec; len(got.Containers[0].Ports) != 1 || len(got.Containers) != 1 ||
		len(got.Volumes) != 2 {
		t.Errorf("%d ports, %d containers, %d volumes, want 1, 1, 2", len(got.Containers[0].Ports), len(got.Containers),
			len(got.Volumes))
	}
	if ports := prunedService(o.service, want.service).Spec.Ports; len(ports) != 1 || ports[0].Port != 80 {
		t.Errorf("the Service's ports %v, want 80: it needs one", ports)
	}
	if len(pod.Containers) != 2 || o.service.Spec.Ports[0].Port != 81 {
		t.Error("the observation was changed")
	}
}

// One foreign entry is enough to prune a Deployment, whichever list has it.
func TestPruneFindsEachForeignEntry(t *testing.T) {
	for list, add := range map[string]func(*corev1.PodSpec){
		"ports": func(p *corev1.PodSpec) {
			p.Containers[0].Ports = append(p.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 1})
		},
		"mounts": func(p *corev1.PodSpec) {
			p.Containers[0].VolumeMounts = append(p.Containers[0].VolumeMounts, corev1.VolumeMount{MountPath: "/host"})
		},
		"containers": func(p *corev1.PodSpec) { p.Containers = append(p.Containers, corev1.Container{Name: "miner"}) },
		"volumes":    func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, corev1.Volume{Name: "host"}) },
	} {
		o := appliedObservation(t, view())
		applied := o.deployment.DeepCopy()
		add(&o.deployment.Spec.Template.Spec)
		bare := prunedDeployment(o.deployment, render(o.view, defaultImage).deployment, false)
		if bare == nil {
			t.Errorf("%s: found nothing foreign", list)
		} else if diff := cmp.Diff(applied.Spec.Template.Spec, bare.Spec.Template.Spec); diff != "" {
			t.Errorf("%s: pruned (-applied +got):\n%s", list, diff)
		}
	}
}
