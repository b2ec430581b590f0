package markdownview

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
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

// takenOver transfers an applied field to another field manager.
func takenOver(o client.Object, path string) {
	fields := o.GetManagedFields()
	text := fields[0].FieldsV1.GetRawString()
	fields[0].FieldsV1.SetRawString(strings.Replace(strings.Replace(text, `"`+path+`":{},`, "", 1),
		`,"`+path+`":{}`, "", 1))
	o.SetManagedFields(fields)
}

// forge replaces the field managers with one entry in the name of this operator, as any user can.
func forge(o client.Object, version, fields string) {
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: string(apply.FieldOwner), Operation: metav1.ManagedFieldsOperationApply, APIVersion: version,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}})
}

// The golden reconciles have the usual drift. The decision from cached objects equals that from
// complete ones.
func TestDecide(t *testing.T) {
	now := metav1.Now()
	for reason, tc := range map[string]struct {
		change func(*observation)
		want   [3]action
	}{
		"nothing": {func(*observation) {}, [3]action{keep, keep, keep}},
		"a foreign terminating": {func(o *observation) {
			o.deployment.OwnerReferences, o.deployment.DeletionTimestamp = nil, &now
		}, [3]action{keep, conflict, keep}},
		"fields defaulted by the API server": {func(o *observation) {
			o.deployment.Spec.ProgressDeadlineSeconds = new(int32(600))
			o.deployment.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
			o.service.Spec.ClusterIP = "10.0.0.1"
		}, [3]action{keep, keep, keep}},
		"a value of another manager": {func(o *observation) {
			takenOver(o.configMap, "f:a.md")
			o.configMap.Data["a.md"] = "y"
		}, [3]action{update, keep, keep}},
		"a key removed by another manager": {func(o *observation) {
			takenOver(o.configMap, "f:a.md")
			delete(o.configMap.Data, "a.md")
		}, [3]action{update, keep, keep}},
		"a label of another manager": {func(o *observation) { takenOver(o.service, "f:app.kubernetes.io/part-of") },
			[3]action{keep, keep, update}},
		"a text without field managers": {func(o *observation) {
			o.configMap.ManagedFields, o.configMap.Data["a.md"] = nil, "forged"
		}, [3]action{update, keep, keep}},
		"forged managers of list items": {func(o *observation) {
			pod := &o.deployment.Spec.Template.Spec
			pod.Containers = append(pod.Containers, corev1.Container{Name: "miner"})
			forge(o.configMap, "v1", `{"f:data":{}}`)
			forge(o.deployment, "apps/v1", `{"f:spec":{"f:template":{"f:spec":{"f:containers":{`+
				`"k:{\"name\":\"viewer\"}":{"f:ports":{"k:{\"containerPort\":3000,\"protocol\":\"TCP\"}":{}}}}}}}}`)
			forge(o.service, "v1", `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{}}}}`)
		}, [3]action{update, update, update}},
		"a forged manager of the spec": {func(o *observation) { forge(o.deployment, "apps/v1", `{"f:spec":{}}`) },
			[3]action{keep, update, keep}},
		"a forged manager of the template": {func(o *observation) {
			forge(o.deployment, "apps/v1", `{"f:spec":{"f:template":{}}}`)
		}, [3]action{keep, update, keep}},
		"a forged manager of a label": {func(o *observation) {
			forge(o.deployment, "apps/v1",
				`{"f:spec":{"f:template":{"f:metadata":{"f:labels":{"f:app.kubernetes.io/name":{}}}}}}`)
		}, [3]action{keep, update, keep}},
	} {
		t.Run(reason, func(t *testing.T) {
			o := appliedObservation(t, view())
			tc.change(o)
			if got := actions(decided(t, o)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if got := actions(decided(t, cachedObservation(t, o))); got != tc.want {
				t.Errorf("from the cache %v, want %v", got, tc.want)
			}
		})
	}
}

// Managed fields that cannot be decoded are an error and not drift: the API server would reject the
// apply.
func TestDecide_unreadable_managed_fields(t *testing.T) {
	o := appliedObservation(t, view())
	forge(o.deployment, "apps/v1", `{"not a path":{}}`)
	for _, o := range []*observation{o, cachedObservation(t, o)} {
		if p, err := decide(o); err == nil {
			t.Errorf("got the plan %v, want an error", p)
		}
	}
}

// For each combination of children, the plan writes only absent and owned children.
func TestDecide_every_combination_of_children(t *testing.T) {
	now := metav1.Now()
	states := map[string]struct {
		change func(client.Object) // nil if the child does not exist
		want   action
	}{
		"absent":        {nil, create},
		"right":         {func(client.Object) {}, keep},
		"drifted":       {func(o client.Object) { o.SetManagedFields(nil) }, update},
		"foreign":       {func(o client.Object) { o.SetOwnerReferences(nil) }, conflict},
		"predecessor's": {func(o client.Object) { o.GetOwnerReferences()[0].UID = "former" }, wait},
		"terminating":   {func(o client.Object) { o.SetDeletionTimestamp(&now) }, wait},
	}
	base := appliedObservation(t, view())
	for a, ofConfigMap := range states {
		for b, ofDeployment := range states {
			for c, ofService := range states {
				o := &observation{view: base.view, want: base.want}
				if change := ofConfigMap.change; change != nil {
					o.configMap = base.configMap.DeepCopy()
					change(o.configMap)
				}
				if change := ofDeployment.change; change != nil {
					o.deployment = base.deployment.DeepCopy()
					change(o.deployment)
				}
				if change := ofService.change; change != nil {
					o.service = base.service.DeepCopy()
					change(o.service)
				}
				p, want := decided(t, o), [3]action{ofConfigMap.want, ofDeployment.want, ofService.want}
				if got := actions(p); got != want {
					t.Errorf("%s ConfigMap, %s Deployment, %s Service: %v, want %v", a, b, c, got, want)
				}
				if writes := oneOf(create, want[:]...) || oneOf(update, want[:]...); p.writes() != writes {
					t.Errorf("%v: writes %t, want %t", want, p.writes(), writes)
				}
			}
		}
	}
}

// specFields has, for each field of the spec, another valid value and an invalid one.
var specFields = map[string]struct{ other, invalid any }{
	"Markdowns":   {files{"SUMMARY.md": "other"}, files{"a.md": ""}},
	"Replicas":    {int32(3), int32(6)},
	"ViewerImage": {"v:2", "A:b"},
	"ViewerArgs":  {[]v1beta1.ViewerArg{"serve"}, []v1beta1.ViewerArg{"\x7f"}},
}

// A field that the comparison omits would have no effect on children, or none on admission.
func TestEachSpecFieldIsCompared(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[v1beta1.MarkdownViewSpec]()) {
		t.Run(field.Name, func(t *testing.T) {
			values, known := specFields[field.Name]
			if !known {
				t.Fatal("there are no values of this field in specFields")
			}
			set := func(value any) *v1beta1.MarkdownView {
				v := view()
				reflect.ValueOf(&v.Spec).Elem().FieldByName(field.Name).Set(reflect.ValueOf(value))
				return v
			}
			o := appliedObservation(t, view())
			o.want = desiredOf(t, set(values.other))
			if p := decided(t, o); !p.writes() {
				t.Errorf("with another value: %v, want an update", actions(p))
			}
			if _, err := (&Webhook{}).ValidateUpdate(t.Context(), view(), set(values.other)); err != nil {
				t.Errorf("an update to another value: %v, want it accepted", err)
			}
			if _, err := (&Webhook{}).ValidateUpdate(t.Context(), view(), set(values.invalid)); err == nil {
				t.Error("an update to an invalid value is accepted")
			}
			if errs := validate(set(values.invalid)); len(errs) == 0 {
				t.Error("an invalid value is accepted")
			}
		})
	}
}

// One foreign entry is enough to prune a Deployment, whichever list has it. Ports are pruned at
// once. The others stay while applied fields differ, as they refer to each other.
func TestPrunedDeployment(t *testing.T) {
	for entry, tc := range map[string]struct {
		add    func(*corev1.PodSpec, *corev1.Container)
		atOnce bool
	}{
		"nothing": {func(*corev1.PodSpec, *corev1.Container) {}, false},
		"a port of another number": {func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: viewerPort + 1, Protocol: corev1.ProtocolTCP})
		}, true},
		"a port of another protocol": {func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: viewerPort, Protocol: corev1.ProtocolUDP})
		}, true},
		"a mount": {func(_ *corev1.PodSpec, c *corev1.Container) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "content", MountPath: "/host"})
		}, false},
		"a volume": {func(p *corev1.PodSpec, _ *corev1.Container) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "host"})
		}, false},
		"a container": {func(p *corev1.PodSpec, _ *corev1.Container) {
			p.Containers = append(p.Containers, corev1.Container{Name: "miner"})
		}, false},
	} {
		t.Run(entry, func(t *testing.T) {
			o := appliedObservation(t, view())
			applied := o.deployment.DeepCopy()
			tc.add(&o.deployment.Spec.Template.Spec, &o.deployment.Spec.Template.Spec.Containers[0])
			observed, want := o.deployment.DeepCopy(), render(o.view, defaultImage).deployment
			for differs, pruned := range map[bool]bool{true: tc.atOnce, false: !cmp.Equal(applied, observed)} {
				got := prunedDeployment(o.deployment, want, differs)
				if (got != nil) != pruned {
					t.Errorf("pruned while applied fields differ (%t): %t, want %t", differs, got != nil, pruned)
				} else if diff := cmp.Diff(applied, got); pruned && diff != "" {
					t.Errorf("pruned while applied fields differ (%t) (-applied +got):\n%s", differs, diff)
				}
			}
			if diff := cmp.Diff(observed, o.deployment); diff != "" {
				t.Errorf("the observation was changed:\n%s", diff)
			}
		})
	}
}

func TestOwnerOf(t *testing.T) {
	ref := func(uid, name string, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "MarkdownView", Name: name,
			UID: types.UID(uid), Controller: controller}
	}
	yes, no := new(true), new(false)
	other := ref("other", "book", yes)
	other.Kind = "Tenant"
	older := ref("other", "book", yes)
	older.APIVersion = "leasehold.dev/v1"
	for reason, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   ownership
	}{
		"no owner":                        {nil, foreign},
		"owned":                           {[]metav1.OwnerReference{ref("uid", "book", yes)}, self},
		"owned by UID, with another name": {[]metav1.OwnerReference{ref("uid", "another", yes)}, self},
		"owner but no controller":         {[]metav1.OwnerReference{ref("uid", "book", no)}, foreign},
		"owner, controller unset":         {[]metav1.OwnerReference{ref("uid", "book", nil)}, foreign},
		"owner, controlled by another": {[]metav1.OwnerReference{ref("uid", "book", nil),
			ref("other", "another", yes)}, foreign},
		"controller, owned by another": {[]metav1.OwnerReference{ref("other", "another", nil),
			ref("uid", "book", yes)}, self},
		"controlled by a predecessor of this name":  {[]metav1.OwnerReference{ref("other", "book", yes)}, predecessor},
		"controlled by another view":                {[]metav1.OwnerReference{ref("other", "another", yes)}, foreign},
		"controlled by another kind with this name": {[]metav1.OwnerReference{other}, foreign},
		"controlled by an unknown version":          {[]metav1.OwnerReference{older}, foreign},
		"controller without a UID":                  {[]metav1.OwnerReference{ref("", "another", yes)}, foreign},
	} {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners, Labels: labelsFor(view())}}
		if got := ownerOf(view(), child); got != tc.want {
			t.Errorf("%s: %s, want %s", reason, got, tc.want)
		}
	}
	unsaved := view(func(v *v1beta1.MarkdownView) { v.UID = "" })
	forged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{ref("",
		"book", yes)}}}
	if got := ownerOf(unsaved, forged); got != foreign {
		t.Errorf("a view without a UID owns nothing, got %s", got)
	}
}
