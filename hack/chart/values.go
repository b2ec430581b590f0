package main

import (
	"errors"
	"fmt"
	"strings"
)

// setValues inserts the chart's values into the objects.
func setValues(objects []chartObject) error {
	byName := map[string]*chartObject{}
	for i := range objects {
		o := &objects[i]
		byName[o.kind()+" "+o.name()] = o
		if o.kind() == "CustomResourceDefinition" {
			o.condition = crdsEnabled
			annotations, _ := o.tree["metadata"].(map[string]any)["annotations"].(map[string]any)
			if annotations == nil {
				return fmt.Errorf("%s has no annotations", o.name())
			}
			annotations["helm.sh/resource-policy"] = "keep"
		}
	}
	for name, set := range map[string]func(*chartObject) error{
		"ValidatingAdmissionPolicy " + fenceName:                      onlyWhen(fenced),
		"ValidatingAdmissionPolicyBinding " + fenceName:               setFenceBinding,
		"PodDisruptionBudget " + operatorName:                         onlyWhen(severalReplicas),
		"ServiceMonitor leasehold-controller-manager-metrics-monitor": setMonitor("serviceMonitor", monitored),
		"PrometheusRule leasehold-alerts":                             setAlerts,
		"ClusterRole leasehold-manager-role":                          setAdminRole,
		"Deployment " + operatorName:                                  setDeployment,
	} {
		o, ok := byName[name]
		if !ok {
			return fmt.Errorf("config has no %s, into which values go", name)
		}
		if err := set(o); err != nil {
			return fmt.Errorf("setting values in %s: %w", name, err)
		}
	}
	return nil
}

func onlyWhen(condition string) func(*chartObject) error {
	return func(o *chartObject) error {
		o.condition = condition
		return nil
	}
}

func setFenceBinding(o *chartObject) error {
	o.condition = fenced
	spec, err := at[map[string]any](o.tree, "spec")
	if err != nil {
		return err
	}
	if fmt.Sprint(spec["validationActions"]) != "[Deny]" {
		return fmt.Errorf("its actions are %v, want [Deny]", spec["validationActions"])
	}
	spec["validationActions"] = []any{inline(`{{ eq (include "leasehold.fence" .) "audit" | ternary "Audit" "Deny" }}`)}
	return nil
}

// setMonitor adds the labels by which a Prometheus selects the object.
func setMonitor(value, condition string) func(*chartObject) error {
	return func(o *chartObject) error {
		o.condition = condition
		labels, err := at[map[string]any](o.tree, "metadata", "labels")
		if err != nil {
			return err
		}
		// The key is not written; it only sorts the template after the labels of config/.
		labels["~"] = field(func(indent int) string { return with(indent, ".Values."+value+".labels", "") })
		return nil
	}
}

// setAlerts removes the alert on a missing standby from an installation that has none, and lets a
// reconcile take as long as the flags allow.
func setAlerts(o *chartObject) error {
	if err := setMonitor("alerts", alerting)(o); err != nil {
		return err
	}
	groups, err := at[[]any](o.tree, "spec", "groups")
	if err != nil {
		return err
	}
	set := 0
	for _, g := range groups {
		group, _ := g.(map[string]any) // at returns an error if it is none
		rules, err := at[[]any](group, "rules")
		if err != nil {
			return err
		}
		for i, r := range rules {
			rule, _ := r.(map[string]any)
			expression, _ := rule["expr"].(string)
			switch rule["alert"] {
			case "LeaseholdNoStandby":
				rules[i] = conditional{severalReplicas, rule}
				set++
			case "LeaseholdWorkerStuck":
				before, found := strings.CutSuffix(strings.TrimSpace(expression), "> 180")
				if !found {
					return fmt.Errorf("LeaseholdWorkerStuck is %q, want a threshold of 180 s", expression)
				}
				rule["expr"] = field(func(indent int) string {
					return lines(indent, "expr: |", "  "+before+`> {{ include "leasehold.stuckSeconds" . }}`)
				})
				set++
			}
		}
	}
	if set != 2 {
		return fmt.Errorf("%d of 2 alerts on which values depend are there", set)
	}
	return nil
}

// setAdminRole inserts the only ClusterRole that the manager may bind.
func setAdminRole(o *chartObject) error {
	rules, err := at[[]any](o.tree, "rules")
	if err != nil {
		return err
	}
	for _, rule := range rules {
		if r, ok := rule.(map[string]any); ok && fmt.Sprint(r["verbs"]) == "[bind]" &&
			fmt.Sprint(r["resourceNames"]) == "[admin]" {
			r["resourceNames"] = []any{inline(`{{ .Values.tenantAdminClusterRole | quote }}`)}
			return nil
		}
	}
	return errors.New("no rule is about binding the ClusterRole admin")
}

func setDeployment(o *chartObject) error {
	spec, err := at[map[string]any](o.tree, "spec")
	if err != nil {
		return err
	}
	spec["replicas"] = inline(`{{ .Values.replicas }}`)
	pod, err := at[map[string]any](spec, "template", "spec")
	if err != nil {
		return err
	}
	affinity, err := at[map[string]any](pod, "affinity")
	if err != nil {
		return err
	}
	pod["affinity"] = orDefault(".Values.scheduling.affinity", affinity)
	for _, key := range []string{"nodeSelector", "tolerations", "topologySpreadConstraints"} {
		pod[key] = field(func(indent int) string { return with(indent, ".Values.scheduling."+key, key) })
	}
	pod["priorityClassName"] = optional("priorityClassName", ".Values.scheduling.priorityClassName")
	pod["imagePullSecrets"] = field(func(indent int) string {
		return when(indent, ".Values.images.pullSecrets", lines(indent, "imagePullSecrets:",
			"{{- range .Values.images.pullSecrets }}", "- name: {{ . | quote }}", "{{- end }}"))
	})
	containers, err := at[[]any](pod, "containers")
	if err != nil {
		return err
	}
	container, ok := containers[0].(map[string]any)
	if !ok || len(containers) != 1 || container["name"] != managerContainer {
		return fmt.Errorf("its containers are not one called %s", managerContainer)
	}
	return setContainer(container)
}

func setContainer(container map[string]any) error {
	if container["image"] != "leasehold:dev" || container["imagePullPolicy"] != nil {
		return fmt.Errorf("its image is %v, pulled %v; want leasehold:dev, and no policy", container["image"],
			container["imagePullPolicy"])
	}
	container["image"] = inline(`{{ include "leasehold.image" (list . "manager") | quote }}`)
	container["imagePullPolicy"] = optional("imagePullPolicy", ".Values.images.manager.pullPolicy")
	container["resources"] = block(func(indent int) string {
		return lines(indent, fmt.Sprintf("  {{- toYaml .Values.resources | nindent %d }}", indent+2))
	})
	args, err := at[[]any](container, "args")
	if err != nil {
		return err
	}
	found := false
	for i, arg := range args {
		if text, ok := arg.(string); ok && strings.HasPrefix(text, "--default-viewer-image=") {
			args[i] = inline(`{{ include "leasehold.image" (list . "viewer") | printf "--default-viewer-image=%s" | quote }}`)
			found = true
		}
	}
	if !found {
		return errors.New("no argument names the viewer's image")
	}
	container["args"] = append(args, field(func(indent int) string {
		return lines(indent, `{{- with include "leasehold.flags" . }}`, fmt.Sprintf("{{- . | trim | nindent %d }}", indent),
			"{{- end }}")
	}))
	return nil
}

// at returns the value of tree at path.
func at[T any](tree map[string]any, path ...string) (T, error) {
	var value any = tree
	for _, key := range path {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	typed, ok := value.(T)
	if !ok {
		return typed, fmt.Errorf("%s is %T, want %T", strings.Join(path, "."), value, typed)
	}
	return typed, nil
}

// lines returns whole lines of a template, each indented.
func lines(indent int, text ...string) string {
	prefix := strings.Repeat(" ", indent)
	return prefix + strings.Join(text, "\n"+prefix) + "\n"
}

// with returns a template for the value as a field called key, or as separate fields if key is
// empty. The template writes nothing for an empty value.
func with(indent int, value, key string) string {
	text := []string{"{{- with " + value + " }}"}
	deeper := indent
	if key != "" {
		text = append(text, key+":")
		deeper += 2
	}
	return lines(indent, append(text, fmt.Sprintf("{{- toYaml . | nindent %d }}", deeper), "{{- end }}")...)
}

// optional returns a scalar that is omitted if the value is empty.
func optional(key, value string) field {
	return func(indent int) string {
		return lines(indent, "{{- with "+value+" }}", key+": {{ . | quote }}", "{{- end }}")
	}
}

// orDefault returns the value, or the content of config/ if the value is empty.
func orDefault(value string, shipped map[string]any) block {
	return func(indent int) string {
		var e emitter
		e.mapping(indent+2, shipped)
		return lines(indent, "{{- with "+value+" }}", fmt.Sprintf("{{- toYaml . | nindent %d }}", indent+2), "{{- else }}") +
			e.text.String() + lines(indent, "{{- end }}")
	}
}
