package markdownview

import (
	"testing"

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

// verbs is the plan as one word a child.
func verbs(p plan) [3]verb { return [3]verb{p.steps[0].verb, p.steps[1].verb, p.steps[2].verb} }

func TestDecide(t *testing.T) {
	now := metav1.Now()
	orphaned := func(o metav1.Object) { o.SetOwnerReferences(nil) }
	former := func(o metav1.Object) {
		owners := o.GetOwnerReferences()
		owners[0].UID = "former"
		o.SetOwnerReferences(owners)
	}
	for reason, tc := range map[string]struct {
		change func(*observation)
		want   [3]verb
	}{
		"nothing is there":        {func(o *observation) { o.configMap, o.deployment, o.service = nil, nil, nil }, [3]verb{create, create, create}},
		"all is there":            {func(*observation) {}, [3]verb{keep, keep, keep}},
		"one is missing":          {func(o *observation) { o.deployment = nil }, [3]verb{keep, create, keep}},
		"a stranger's ConfigMap":  {func(o *observation) { orphaned(o.configMap) }, [3]verb{conflict, keep, keep}},
		"a stranger's Deployment": {func(o *observation) { orphaned(o.deployment) }, [3]verb{keep, conflict, keep}},
		"a stranger's Service":    {func(o *observation) { orphaned(o.service) }, [3]verb{keep, keep, conflict}},
		"a former view's":         {func(o *observation) { former(o.configMap); former(o.service) }, [3]verb{wait, keep, wait}},
		"on its way out":          {func(o *observation) { o.deployment.DeletionTimestamp = &now }, [3]verb{keep, wait, keep}},
		"a stranger's on its way out": {func(o *observation) {
			orphaned(o.deployment)
			o.deployment.DeletionTimestamp = &now
		}, [3]verb{keep, conflict, keep}},
		"other content wanted": {func(o *observation) {
			o.view.Spec.Markdowns["a.md"] = "other"
			o.want = asked(t, o.view)
		}, [3]verb{update, update, keep}},
		"other replicas wanted": {func(o *observation) {
			o.view.Spec.Replicas = 3
			o.want = asked(t, o.view)
		}, [3]verb{keep, update, keep}},
		"fields defaulted by the API server": {func(o *observation) {
			o.deployment.Spec.ProgressDeadlineSeconds = new(int32(600))
			o.deployment.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
			o.service.Spec.ClusterIP = "10.0.0.1"
		}, [3]verb{keep, keep, keep}},
		"a key added":    {func(o *observation) { o.configMap.Data["stray.md"] = "" }, [3]verb{update, keep, keep}},
		"a binary added": {func(o *observation) { o.configMap.BinaryData = map[string][]byte{"x": nil} }, [3]verb{update, keep, keep}},
		"who set the fields is not known any more": {func(o *observation) { o.service.ManagedFields = nil }, [3]verb{keep, keep, update}},
	} {
		t.Run(reason, func(t *testing.T) {
			o := applied(t, view())
			tc.change(o)
			if got := verbs(decided(t, o)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDecideDoesNothingForWhatIsWrong(t *testing.T) {
	v := view(showing(nil))
	p := decided(t, &observation{view: v, want: asked(t, v)})
	if p.invalid == "" || len(p.steps) != 0 || p.writes() {
		t.Errorf("got %q and %d steps, want an error and no step", p.invalid, len(p.steps))
	}
}

// A broken record of who set which field must be told, not taken for drift: the
// apply would be refused for it.
func TestDecideTellsWhatItCannotRead(t *testing.T) {
	o := applied(t, view())
	o.deployment.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: string(apply.FieldOwner), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"not a path":{}}`)}}
	if p, err := decide(o); err == nil {
		t.Errorf("got the plan %v, want an error", p)
	}
}

func TestPruneLeavesWhatIsOurs(t *testing.T) {
	o := applied(t, view())
	want := render(o.view, defaultImage)
	if bareDeployment(o.deployment, want.deployment, false) != nil || bareService(o.service, want.service) != nil {
		t.Fatal("something of ours was found to be another's")
	}
	pod := &o.deployment.Spec.Template.Spec
	pod.Containers = append(pod.Containers, corev1.Container{Name: "miner"})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "host"})
	pod.Containers[0].Ports = append(pod.Containers[0].Ports, corev1.ContainerPort{Name: "other", ContainerPort: 1})
	o.service.Spec.Ports[0].Port = 81

	inTheWay := bareDeployment(o.deployment, want.deployment, true)
	if got := inTheWay.Spec.Template.Spec; len(got.Containers[0].Ports) != 1 || len(got.Containers) != 2 || len(got.Volumes) != 3 {
		t.Errorf("while ours differ: %d ports, %d containers, %d volumes, want 1, 2, 3", len(got.Containers[0].Ports), len(got.Containers), len(got.Volumes))
	}
	bare := bareDeployment(o.deployment, want.deployment, false)
	if got := bare.Spec.Template.Spec; len(got.Containers[0].Ports) != 1 || len(got.Containers) != 1 || len(got.Volumes) != 2 {
		t.Errorf("%d ports, %d containers, %d volumes, want 1, 1, 2", len(got.Containers[0].Ports), len(got.Containers), len(got.Volumes))
	}
	if ports := bareService(o.service, want.service).Spec.Ports; len(ports) != 1 || ports[0].Port != 80 {
		t.Errorf("the Service's ports %v, want 80: it must have one", ports)
	}
	if len(pod.Containers) != 2 || o.service.Spec.Ports[0].Port != 81 {
		t.Error("what was observed must not be changed")
	}
}
