// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kustomizations are the names of kustomize's files.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// remote matches what kustomize and helm would download: URLs, git's short forms, and repositories
// by host and path.
var remote = regexp.MustCompile(
	`^([a-z][a-z0-9+.-]*::?)?([a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:|(www\.)?(github\.com|gitlab\.com|bitbucket\.org)/)`)

// CheckLocal returns an error for manifests that would have to be downloaded.
func CheckLocal(path string) error {
	if !remote.MatchString(path) {
		return nil
	}
	return fmt.Errorf("%s is remote, and a run must give the same tomorrow: download it, and name the local path", path)
}

// render returns the objects of a kustomize folder, a YAML file, a folder of YAML files or a
// chart, in the order of its source.
func render(ctx context.Context, assets, path string, chart Chart) ([]*unstructured.Unstructured, error) {
	if err := CheckLocal(path); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case IsChart(path):
		return renderChart(ctx, assets, path, chart)
	case info.IsDir() && slices.ContainsFunc(kustomizations, func(name string) bool { return hasFile(path, name) }):
		return kustomize(ctx, assets, path)
	}
	return ReadYAML(path)
}

func isYAML(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
}

func kustomize(ctx context.Context, assets, dir string) ([]*unstructured.Unstructured, error) {
	if err := checkBases(dir, map[string]bool{}); err != nil {
		return nil, err
	}
	path, err := kubectl(assets)
	if err != nil {
		return nil, err
	}
	text, err := output(ctx, path, nil, "kustomize", dir)
	if err != nil {
		return nil, err
	}
	objs, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("decoding what kustomize made: %w", err)
	}
	return objs, nil
}

// checkBases finds remote bases, which kustomize would download, in dir and in the local bases
// below it. It leaves all other mistakes to kustomize.
func checkBases(dir string, seen map[string]bool) error {
	if seen[dir] {
		return nil
	}
	seen[dir] = true
	var errs []error
	for _, name := range kustomizations {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		var file struct{ Resources, Bases, Components []string }
		if yaml.Unmarshal(text, &file) != nil {
			continue
		}
		for _, base := range slices.Concat(file.Resources, file.Bases, file.Components) {
			path := filepath.Join(dir, base)
			if _, err := os.Stat(path); err == nil {
				errs = append(errs, checkBases(path, seen))
			} else if err := CheckLocal(base); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", filepath.Join(dir, name), err))
			}
		}
	}
	return errors.Join(errs...)
}

// ReadYAML reads the objects of a YAML file, which may contain several documents, or of all YAML
// files of a folder, ordered by name. It replaces each List by its items.
func ReadYAML(path string) ([]*unstructured.Unstructured, error) {
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*")); err != nil {
			return nil, err
		}
		files = slices.DeleteFunc(files, func(f string) bool { return !isYAML(f) })
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no kustomization.yaml, no Chart.yaml and no *.yaml", path)
	}
	var objs []*unstructured.Unstructured
	for _, file := range files {
		if !isYAML(file) {
			return nil, fmt.Errorf("%s is no YAML file and no packaged chart (.tgz)", file)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		read, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objs = append(objs, read...)
	}
	return objs, nil
}

// decode decodes documents. Its errors have the line of the text.
func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	for _, d := range documents(text) {
		// Empty lines in front give the parser's messages the line of the text.
		padded := append(bytes.Repeat([]byte("\n"), d.line-1), d.text...)
		fields, err := yaml.YAMLToJSON(padded)
		if err != nil {
			return nil, fmt.Errorf("decoding the document at line %d: %w", d.line, err)
		}
		if string(fields) == "null" {
			continue // only comments
		}
		var kind metav1.TypeMeta
		if err := json.Unmarshal(fields, &kind); err != nil || kind.Kind == "" || kind.APIVersion == "" {
			return nil, fmt.Errorf("decoding the document at line %d: it has no apiVersion and kind", d.line)
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(fields); err != nil {
			return nil, fmt.Errorf("decoding the document at line %d: %w", d.line, err)
		}
		if !obj.IsList() {
			objs = append(objs, obj)
			continue
		}
		list, err := obj.ToList()
		if err != nil {
			return nil, fmt.Errorf("decoding the list at line %d: %w", d.line, err)
		}
		for i := range list.Items {
			objs = append(objs, &list.Items[i])
		}
	}
	return objs, nil
}

// document is a YAML document with the line at which it begins.
type document struct {
	line int
	text []byte
}

// separator begins a document; a comment may follow.
var separator = regexp.MustCompile(`^---(\s|$)`)

func documents(text []byte) []document {
	all := []document{{line: 1}}
	for i, line := range bytes.SplitAfter(text, []byte("\n")) {
		if separator.Match(line) {
			// What follows the dashes belongs to the document.
			all = append(all, document{line: i + 1})
			line = bytes.TrimPrefix(line, []byte("---"))
		}
		last := &all[len(all)-1]
		last.text = append(last.text, line...)
	}
	return slices.DeleteFunc(all, func(d document) bool { return strings.TrimSpace(string(d.text)) == "" })
}
