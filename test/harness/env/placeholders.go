// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// placeholder matches a variable with a default. clusterctl and Flux replace such variables in the
// text of manifests before they apply it. A default ends where its JSON string does.
var placeholder = regexp.MustCompile(`\$\{([A-Za-z_]\w*):?[=-]((?:\\.|[^{}"\\])*)\}`)

// fillPlaceholders replaces variables in the text of Deployments with their defaults. The notes name the variables of
// each Deployment.
func fillPlaceholders(objects []*unstructured.Unstructured) (notes []string, err error) {
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		text, err := o.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encoding Deployment %s: %w", o.GetName(), err)
		}
		names := sets.New[string]()
		for _, found := range placeholder.FindAllSubmatch(text, -1) {
			names.Insert(string(found[1]))
		}
		if names.Len() == 0 {
			continue
		}
		if err := o.UnmarshalJSON(placeholder.ReplaceAll(text, []byte("$2"))); err != nil {
			return nil, fmt.Errorf("giving the variables of Deployment %s their defaults: %w", o.GetName(), err)
		}
		notes = append(notes, fmt.Sprintf(
			"the variables %s of Deployment %s have their defaults; args and env of the subject can change that",
			strings.Join(sets.List(names), ", "), o.GetName()))
	}
	return notes, nil
}
