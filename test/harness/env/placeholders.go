// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// placeholder matches a variable with a default. clusterctl and Flux replace such variables in the
// text of manifests before they apply it.
var placeholder = regexp.MustCompile(`\$\{([A-Za-z_]\w*):?[=-]([^{}]*)\}`)

// shells expand variables with defaults themselves, when the container starts.
var shells = []string{"sh", "ash", "bash", "dash"}

// fillPlaceholders replaces variables in the arguments and environments of Deployments with their
// defaults. The notes name the variables of each Deployment.
func fillPlaceholders(objects []*unstructured.Unstructured) (notes []string) {
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		var filled []string
		containers, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec", "containers")
		list, _ := containers.([]any) // the conversion to a Deployment reports another type
		for _, container := range list {
			if fields, ok := container.(map[string]any); ok && !isShell(fields) {
				filled = append(filled, fillDefaults(fields["args"])...)
				filled = append(filled, fillDefaults(fields["env"])...)
			}
		}
		if len(filled) > 0 {
			slices.Sort(filled)
			notes = append(notes, fmt.Sprintf(
				"the variables %s of Deployment %s have their defaults; args and env of the subject can change that",
				strings.Join(slices.Compact(filled), ", "), o.GetName()))
		}
	}
	return notes
}

func isShell(container map[string]any) bool {
	command, _ := container["command"].([]any)
	if len(command) == 0 {
		return false
	}
	name, _ := command[0].(string)
	return slices.Contains(shells, path.Base(name))
}

// fillDefaults replaces the variables in the strings of a value, in place, and returns their names.
func fillDefaults(value any) (names []string) {
	fill := func(text string) string {
		for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
		return placeholder.ReplaceAllString(text, "$2")
	}
	list, _ := value.([]any)
	for i, item := range list {
		switch item := item.(type) {
		case string:
			list[i] = fill(item)
		case map[string]any:
			if text, ok := item["value"].(string); ok {
				item["value"] = fill(text)
			}
		}
	}
	return names
}
