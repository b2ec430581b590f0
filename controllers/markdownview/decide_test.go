// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"cmp"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// actions returns the actions of a plan.
func actions(p plan) [3]action {
	return [3]action{p.steps[0].action, p.steps[1].action, p.steps[2].action}
}

// The golden reconciles have the usual drift.
func TestDecide(t *testing.T) {
	now := metav1.Now()
	pod := func(f func(p *corev1.PodSpec, viewer *corev1.Container)) func(*observation) {
		return func(o *observation) {
			f(&o.deployment.Spec.Template.Spec, &o.deployment.Spec.Template.Spec.Containers[0])
		}
	}
	kept, content, viewer, address := [3]action{keep, keep, keep}, [3]action{update, keep, keep},
		[3]action{keep, update, keep}, [3]action{keep, keep, update}
	for reason, tc := range map[string]struct {
		change func(*observation)
		want   [3]action
	}{
		"nothing": {func(*observation) {}, kept},
		"a foreign terminating": {func(o *observation) {
			o.deployment.OwnerReferences, o.deployment.DeletionTimestamp = nil, &now
		}, [3]action{keep, conflict, keep}},
		"fields defaulted by the API server": {func(o *observation) {
			o.deployment.Spec.ProgressDeadlineSeconds = new(int32(600))
			o.deployment.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
			o.service.Spec.ClusterIP = "10.0.0.1"
		}, kept},
		"what other clients add": {func(o *observation) {
			o.configMap.Labels["a"], o.deployment.Spec.Template.Labels["a"] = "b", "b"
			o.service.OwnerReferences = append([]metav1.OwnerReference{{UID: "other"}}, o.service.OwnerReferences...)
			pod := &o.deployment.Spec.Template.Spec
			pod.Containers[0].Env = []corev1.EnvVar{{Name: "A"}}
			pod.Containers = append(pod.Containers, corev1.Container{Name: "x"})
			o.configMap.Data["b.md"], o.service.Spec.Selector["a"] = "", "b"
			o.service.Spec.Ports = append(o.service.Spec.Ports, corev1.ServicePort{Port: 81})
		}, kept},
		"another text": {func(o *observation) { o.configMap.Data["a.md"] = digest("y") }, content},
		"no text":      {func(o *observation) { delete(o.configMap.Data, "a.md") }, content},
		"immutable":    {func(o *observation) { o.configMap.Immutable = new(true) }, kept},
		"another text, immutable": {func(o *observation) {
			o.configMap.Data["a.md"], o.configMap.Immutable = digest("y"), new(true)
		}, [3]action{replace, keep, keep}},
		"foreign, immutable": {func(o *observation) {
			o.configMap.Data, o.configMap.OwnerReferences, o.configMap.Immutable = nil, nil, new(true)
		}, [3]action{conflict, keep, keep}},
		"terminating, immutable": {func(o *observation) {
			o.configMap.Data, o.configMap.DeletionTimestamp, o.configMap.Immutable = nil, &now, new(true)
		}, [3]action{wait, keep, keep}},
		"a label": {func(o *observation) { o.service.Labels[labelPartOf] = "x" }, address},
		"a deletion that is not awaited": {func(o *observation) {
			o.service.OwnerReferences[0].BlockOwnerDeletion = nil
		}, address},
		"a selector":       {func(o *observation) { o.service.Spec.Selector = nil }, address},
		"another protocol": {func(o *observation) { o.service.Spec.Ports[0].Protocol = "UDP" }, address},
		"another surge": {func(o *observation) {
			o.deployment.Spec.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
		}, viewer},
		"a token": {pod(func(p *corev1.PodSpec, _ *corev1.Container) { p.AutomountServiceAccountToken = nil }), viewer},
		"root": {pod(func(p *corev1.PodSpec, _ *corev1.Container) {
			p.SecurityContext.RunAsNonRoot = new(false)
		}), viewer},
		"escalation": {pod(func(_ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.AllowPrivilegeEscalation = new(true)
		}), viewer},
		"capabilities": {pod(func(_ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.Capabilities.Drop = nil
		}), viewer},
		"an image":  {pod(func(_ *corev1.PodSpec, c *corev1.Container) { c.Image = "x" }), viewer},
		"a volume":  {pod(func(p *corev1.PodSpec, _ *corev1.Container) { p.Volumes[0].ConfigMap.Name = "x" }), viewer},
		"a mount":   {pod(func(_ *corev1.PodSpec, c *corev1.Container) { c.VolumeMounts[0].ReadOnly = false }), viewer},
		"no viewer": {pod(func(_ *corev1.PodSpec, c *corev1.Container) { c.Name = "x" }), viewer},
		"another order of arguments": {pod(func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Args = []string{"b", "a"}
		}), viewer},
		"an argument more": {pod(func(_ *corev1.PodSpec, c *corev1.Container) { c.Args = []string{"a", "b", "c"} }), viewer},
	} {
		t.Run(reason, func(t *testing.T) {
			o := appliedObservation(t, view(args("a", "b")))
			tc.change(o)
			if got := actions(decide(o)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// What the spec asks for no more is removed by an apply, although each wanted field is there.
func TestWhatTheSpecDropsGoes(t *testing.T) {
	for name, before := range map[string]*v1beta1.MarkdownView{
		"all arguments": view(image(""), args("--title=old")), "the image, and so the user": view(),
	} {
		o := appliedObservation(t, before)
		without := inCache(t, view(image(""))).(*v1beta1.MarkdownView)
		o.want = render(without, o.want.hash, cmp.Or(before.Spec.ViewerImage, defaultImage))
		if got := actions(decide(o)); got != [3]action{keep, update, keep} {
			t.Errorf("%s: %v, want an update of the Deployment", name, got)
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
		"drifted":       {func(o client.Object) { o.SetLabels(nil) }, update},
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
				p, want := decide(o), [3]action{ofConfigMap.want, ofDeployment.want, ofService.want}
				if got := actions(p); got != want {
					t.Errorf("%s ConfigMap, %s Deployment, %s Service: %v, want %v", a, b, c, got, want)
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
			o, other := appliedObservation(t, view()), set(values.other)
			o.want = render(inCache(t, other).(*v1beta1.MarkdownView), hashOf(t, other), defaultImage)
			if p := decide(o); len(p.with(update)) == 0 {
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

// The report of a correction names each field that another client has changed, and no other.
func TestDifferencesAreNamed(t *testing.T) {
	for want, change := range map[string]func(*observation){
		"[]":                            func(*observation) {},
		"[data[a.md]]":                  func(o *observation) { o.configMap.Data["a.md"] = "x" },
		"[data[SUMMARY.md] data[a.md]]": func(o *observation) { o.configMap.Data = nil },
		"[metadata.labels[app.kubernetes.io/part-of]]": func(o *observation) { delete(o.service.Labels, labelPartOf) },
		"[spec.replicas]": func(o *observation) { o.deployment.Spec.Replicas = new(int32(7)) },
		"[spec.selector[app.kubernetes.io/instance]]": func(o *observation) { o.service.Spec.Selector[labelInstance] = "x" },
		"[spec.template.spec.containers[viewer].image spec.template.spec.containers[viewer].resources.limits.memory]": func(o *observation) {
			c := &o.deployment.Spec.Template.Spec.Containers[0]
			c.Image, c.Resources.Limits = "x", nil
		},
		"[spec.template.spec.containers]": func(o *observation) { o.deployment.Spec.Template.Spec.Containers[0].Name = "x" },
		"[spec.ports[http].port]":         func(o *observation) { o.service.Spec.Ports[0].Port = 81 },
		"[spec.template.spec.containers[viewer].args]": func(o *observation) {
			o.deployment.Spec.Template.Spec.Containers[0].Args = []string{"x"}
		},
	} {
		o := appliedObservation(t, view())
		change(o)
		var got []string
		for _, s := range decide(o).steps {
			got = append(got, s.differences...)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("the differences are %s, want %s", got, want)
		}
	}
}
