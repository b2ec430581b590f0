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

// stored are the words that objects in clusters, Secrets and buckets carry: each version of
// the operator has to find what another one has left there.
var stored = map[string]string{
	"LabelTenant":              "leasehold.dev/tenant",
	"LabelManagedBy":           "app.kubernetes.io/managed-by",
	"ManagedByValue":           "leasehold",
	"AnnotationTenantUID":      "leasehold.dev/tenant-uid",
	"AnnotationContentHash":    "leasehold.dev/content-hash",
	"TenantFinalizer":          "leasehold.dev/tenant",
	"StorageBucketFinalizer":   "leasehold.dev/storagebucket",
	"BucketTagOwner":           "leasehold.dev/storagebucket-uid",
	"SecretKeyAccessKeyID":     "AWS_ACCESS_KEY_ID",
	"SecretKeySecretAccessKey": "AWS_SECRET_ACCESS_KEY",
	"SecretKeySessionToken":    "AWS_SESSION_TOKEN",
}

// Users, their scripts and their alerts go by the words of the API. A word is what the name
// of its constant says after the kind of word, or one of those that are stored.
func TestWords(t *testing.T) {
	kinds := []string{"Condition", "Reason", "Event", "Addressing", "Bucket", "Subject", "Namespace"}
	found := map[string]string{}
	for name, word := range words(t) {
		found[name] = word
		if want, isStored := stored[name]; isStored {
			if word != want {
				t.Errorf("%s is %q, want %q", name, word, want)
			}
			continue
		}
		named := false
		for _, kind := range kinds {
			named = named || name == kind+word
		}
		if !named {
			t.Errorf("%s is %q, which is not what it is called after", name, word)
		}
	}
	for name := range stored {
		if found[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
}

// words are the constants of this package that are strings.
func words(t *testing.T) map[string]string {
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
			constants, ok := declared.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			for _, spec := range constants.Specs {
				value := spec.(*ast.ValueSpec)
				if literal, ok := value.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if found[value.Names[0].Name], err = strconv.Unquote(literal.Value); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	return found
}
