// Command chart generates the templates of the Helm chart from the kustomize output of config/. The
// manifests are the only source: an object of the chart is an object of an overlay, with the
// chart's values in the places that values.go names. If an overlay lacks such a place, the program
// fails.
//
//	chart -kustomize bin/tools/kustomize -config config -out config/chart/templates/generated
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	kustomize := flag.String("kustomize", "", "Program that renders the overlays.")
	config := flag.String("config", "config", "Folder of the overlays.")
	out := flag.String("out", "", "Folder of the templates; what it holds is replaced.")
	flag.Parse()
	if err := run(context.Background(), *kustomize, *config, *out); err != nil {
		fmt.Fprintf(os.Stderr, "chart: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kustomize, config, out string) error {
	if kustomize == "" || out == "" {
		return errors.New("-kustomize and -out are needed")
	}
	objects, err := collect(func(overlay string) ([]byte, error) {
		return build(ctx, kustomize, filepath.Join(config, overlay))
	})
	if err != nil {
		return err
	}
	if err := setValues(objects); err != nil {
		return err
	}
	return write(out, templates(objects))
}

// templates returns the text of each file by its name, with one file for each kind.
func templates(objects []chartObject) map[string]string {
	files := map[string]string{}
	for _, o := range objects {
		name := strings.ToLower(o.kind()) + ".yaml"
		if files[name] == "" {
			files[name] = "{{- /* Generated from config/ by hack/chart: make manifests. */ -}}\n"
		}
		files[name] += o.template()
	}
	return files
}

// write replaces all templates of the folder.
func write(folder string, files map[string]string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the folder of templates: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the templates: %w", err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("removing a template: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(files[name]), 0o644); err != nil {
			return fmt.Errorf("writing a template: %w", err)
		}
	}
	return nil
}
