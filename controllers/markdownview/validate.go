// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/markdownview/viewer/markdown"
)

var (
	markdownsPath   = field.NewPath("spec", "markdowns")
	replicasPath    = field.NewPath("spec", "replicas")
	viewerImagePath = field.NewPath("spec", "viewerImage")
	viewerArgsPath  = field.NewPath("spec", "viewerArgs")
)

// validate returns all errors of a MarkdownView but those of its texts, which the cache does not
// hold. It is pure. The reconciler calls it too, because it must not depend on admission. The rules
// of names of views are the schema's alone.
func validate(v *v1beta1.MarkdownView) field.ErrorList {
	var errs field.ErrorList
	if _, ok := v.Spec.Markdowns[markdown.SummaryName]; !ok {
		errs = append(errs, field.Required(markdownsPath, "markdowns must contain SUMMARY.md"))
	}
	for _, name := range slices.Sorted(maps.Keys(v.Spec.Markdowns)) {
		if !markdown.IsFileName(name) {
			errs = append(errs, field.Invalid(markdownsPath.Key(truncate(name)), truncate(name),
				"a file's name must be at most 253 characters long, start with a letter, digit or '_', "+
					"consist of letters, digits, '_', '.' and '-', and end in '.md'"))
		}
	}
	// Zero means one: the schema's default may be missing.
	if n := v.Spec.Replicas; n != 0 && (n < v1beta1.MinViewerReplicas || n > v1beta1.MaxViewerReplicas) {
		errs = append(errs, field.Invalid(replicasPath, n, fmt.Sprintf("replicas must be between %d and %d",
			v1beta1.MinViewerReplicas, v1beta1.MaxViewerReplicas)))
	}
	if image := v.Spec.ViewerImage; image != "" {
		if err := ValidateImage(image); err != nil {
			errs = append(errs, field.Invalid(viewerImagePath, truncate(image), err.Error()))
		}
	}
	for i, arg := range v.Spec.ViewerArgs {
		errs = append(errs, validateText(viewerArgsPath.Index(i), string(arg))...)
	}
	return errs
}

// validateCounts returns an error for each list that is longer than the schema allows.
func validateCounts(v *v1beta1.MarkdownView) field.ErrorList {
	var errs field.ErrorList
	if n := len(v.Spec.Markdowns); n > v1beta1.MaxMarkdowns {
		errs = append(errs, field.TooMany(markdownsPath, n, v1beta1.MaxMarkdowns))
	}
	if n := len(v.Spec.ViewerArgs); n > v1beta1.MaxViewerArgs {
		errs = append(errs, field.TooMany(viewerArgsPath, n, v1beta1.MaxViewerArgs))
	}
	return errs
}

// validateTexts returns all errors of the texts and their size. Only admission needs it.
func validateTexts(v *v1beta1.MarkdownView) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, name := range slices.Sorted(maps.Keys(v.Spec.Markdowns)) {
		text := string(v.Spec.Markdowns[name])
		size += len(name) + len(text)
		errs = append(errs, validateText(markdownsPath.Key(truncate(name)), text)...)
	}
	if size > v1beta1.MaxMarkdownBytes {
		errs = append(errs, field.Invalid(markdownsPath, fmt.Sprintf("%d bytes", size), fmt.Sprintf(
			"all file names and contents together must be at most %d bytes (900 KiB); "+
				"move some of the files to another MarkdownView", v1beta1.MaxMarkdownBytes)))
	}
	return errs
}

// validateSize checks the size of the stored object, which must leave room for a status.
func validateSize(v *v1beta1.MarkdownView) field.ErrorList {
	size := storedBytes(v)
	if size <= v1beta1.MaxMarkdownViewBytes {
		return nil
	}
	return field.ErrorList{field.Invalid(markdownsPath, fmt.Sprintf("%d bytes", size), fmt.Sprintf(
		"the object must be at most %d bytes as JSON, where a quotation mark, a backslash or a line break takes 2 "+
			"bytes, and '<', '>', '&' or a control character takes 6; move some of the files to another MarkdownView, or "+
			"shorten the annotations", v1beta1.MaxMarkdownViewBytes))}
}

// storedBytes returns the size of a view in etcd. The API server stores custom resources as JSON,
// with the escapes of encoding/json.
func storedBytes(v *v1beta1.MarkdownView) int {
	text, _ := json.Marshal(v) // no field of the type can cause an error
	return len(text)
}

// validateText rejects the characters that JSON has and YAML has not: the children are applied, and
// the API server reads an apply as YAML.
func validateText(path *field.Path, text string) field.ErrorList {
	at := strings.IndexFunc(text, func(r rune) bool {
		return r >= '\u007F' && r <= '\u009F' || r == '\uFFFE' || r == '\uFFFF'
	})
	if at < 0 {
		return nil
	}
	r, _ := utf8.DecodeRuneInString(text[at:])
	return field.ErrorList{field.Invalid(path, fmt.Sprintf("%U", r), fmt.Sprintf(
		"the text contains a control character at byte %d, often because of a wrong encoding; remove the character", at))}
}

// ValidateImage returns an error if a kubelet would not accept the image's name.
func ValidateImage(image string) error {
	if _, err := reference.ParseNormalizedNamed(image); err != nil {
		return fmt.Errorf("the name of an image must look like registry.example.com/name:tag or name@sha256:...: %w", err)
	}
	return nil
}

// unpinned returns why the image of this name can change; "" if its name is pinned.
func unpinned(image string) string {
	named, err := reference.ParseNormalizedNamed(image) // validate returns the error
	_, isDigested := named.(reference.Digested)
	tagged, isTagged := named.(reference.Tagged)
	switch {
	case err != nil, isDigested:
		return ""
	case !isTagged:
		return "has no tag and no digest"
	case tagged.Tag() == "latest":
		return "has the tag latest"
	}
	return ""
}

// truncate bounds what a message quotes of a name.
func truncate(text string) string {
	const long = 120
	if len(text) > long {
		return text[:long] + "..."
	}
	return text
}
