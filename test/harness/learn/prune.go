// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
)

// prune removes the fields that a schema lacks, and returns their paths. The API server does so for a
// create, and refuses an apply. A schema that is not structural removes nothing.
func prune(schema *apiextensionsv1.JSONSchemaProps, object map[string]any) []string {
	internal := &apiextensions.JSONSchemaProps{}
	if apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil) != nil {
		return nil
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil
	}
	return pruning.PruneWithOptions(object, structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}
