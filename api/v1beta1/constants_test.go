// SPDX-License-Identifier: Apache-2.0

package v1beta1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// stored are the constants that are stored in objects, Secrets and buckets. Another version of
// the operator has to find them.
var stored = map[string]string{
	"LabelTenant":              "leasehold.dev/tenant",
	"LabelManagedBy":           "app.kubernetes.io/managed-by",
	"ManagedByValue":           "leasehold",
	"AnnotationTenantUID":      "leasehold.dev/tenant-uid",
	"AnnotationPaused":         "leasehold.dev/paused",
	"AnnotationRequestedAt":    "leasehold.dev/requested-at",
	"AnnotationContentHash":    "leasehold.dev/content-hash",
	"TenantFinalizer":          "leasehold.dev/tenant",
	"StorageBucketFinalizer":   "leasehold.dev/storagebucket",
	"BucketTagOwner":           "leasehold.dev/storagebucket-uid",
	"SecretKeyAccessKeyID":     "AWS_ACCESS_KEY_ID",
	"SecretKeySecretAccessKey": "AWS_SECRET_ACCESS_KEY",
	"SecretKeySessionToken":    "AWS_SESSION_TOKEN",
}

// Scripts and alerts of users depend on conditions, reasons, events and enum values. The value of
// such a constant is its name without the prefix.
func TestStringConstants(t *testing.T) {
	prefixes := []string{"Condition", "Reason", "Event", "Addressing", "Bucket", "Subject", "Namespace"}
	constants := stringConstants(t)
	for name, value := range constants {
		if want, isStored := stored[name]; isStored {
			if value != want {
				t.Errorf("%s is %q, want %q", name, value, want)
			}
			continue
		}
		named := false
		for _, prefix := range prefixes {
			named = named || name == prefix+value
		}
		if !named {
			t.Errorf("%s is %q, want its name without one of the prefixes %q, or an entry in stored", name, value, prefixes)
		}
	}
	for name := range stored {
		if constants[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
}

// stringConstants returns the string constants of this package by name.
func stringConstants(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(parsed.Name.Name, "_test") {
			continue
		}
		for _, declared := range parsed.Decls {
			group, ok := declared.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				constant := spec.(*ast.ValueSpec)
				if literal, ok := constant.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if found[constant.Names[0].Name], err = strconv.Unquote(literal.Value); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	return found
}
