// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// helmVariable names a helm program of the user's own.
	helmVariable = "HELM"
	// hookAnnotation identifies hooks, which helm creates, and waits for, in its own order.
	hookAnnotation = "helm.sh/hook"
)

// builtHelm is where `make bin/tools/helm` leaves it, below the module's root.
var builtHelm = filepath.Join("bin", "tools", "helm")

// ErrNoHelm is returned if this machine has no helm to render a chart.
var ErrNoHelm = errors.New("no helm has been built: run `make bin/tools/helm`, or set " + helmVariable)

// Chart configures the rendering of a Helm chart.
type Chart struct {
	// Release is the release's name, and Namespace its namespace.
	Release, Namespace string
	// Values is the YAML text of the values.
	Values []byte
}

// IsChart reports whether path is the folder of a chart, or a packaged one.
func IsChart(path string) bool {
	return hasFile(path, "Chart.yaml") || strings.HasSuffix(path, ".tgz") || strings.HasSuffix(path, ".tar.gz")
}

// renderChart runs helm, which is a program of another module: the harness does not import it.
func renderChart(ctx context.Context, assets, path string, c Chart) ([]*unstructured.Unstructured, error) {
	helm, err := FindHelm()
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the chart: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // a temporary folder
	if path, err = withoutDisabled(path, temp, c.Values); err != nil {
		return nil, fmt.Errorf("leaving out disabled dependencies of the chart: %w", err)
	}
	args := []string{"template", c.Release, path, "--namespace=" + c.Namespace, "--include-crds", "--skip-tests",
		"--values=-"}
	if version, err := serverVersion(ctx, assets); err != nil {
		return nil, err
	} else if version != "" {
		args = append(args, "--kube-version="+version)
	}
	text, err := output(ctx, helm, c.Values, args...)
	if err != nil && strings.Contains(err.Error(), "missing in charts/ directory") {
		err = fmt.Errorf("%w; use the packaged chart (.tgz), which has its dependencies, or a copy completed by `helm dependency build`", err)
	}
	if err != nil {
		return nil, err
	}
	objs, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("decoding what helm made: %w", err)
	}
	return objs, nil
}

// withoutDisabled returns a copy of a chart's folder without the dependencies that are disabled and missing. Helm
// refuses a chart with a missing dependency before it reads the conditions. If there is none, it returns the folder.
func withoutDisabled(path, into string, values []byte) (string, error) {
	if !hasFile(path, "Chart.yaml") {
		return path, nil // a package has its dependencies
	}
	var metadata, given, defaults map[string]any
	if err := errors.Join(readYAMLFile(filepath.Join(path, "Chart.yaml"), &metadata), yaml.Unmarshal(values, &given),
		readYAMLFile(filepath.Join(path, "values.yaml"), &defaults)); err != nil {
		return "", err
	}
	all, _ := metadata["dependencies"].([]any)
	left := slices.DeleteFunc(slices.Clone(all), func(dependency any) bool {
		fields, _ := dependency.(map[string]any)
		name, _ := fields["name"].(string)
		there, err := filepath.Glob(filepath.Join(path, "charts", name+"*"))
		condition, _ := fields["condition"].(string)
		return err == nil && len(there) == 0 && isDisabled(condition, given, defaults)
	})
	if len(left) == len(all) {
		return path, nil
	}
	metadata["dependencies"] = left
	text, err := yaml.Marshal(metadata)
	if err != nil {
		return "", err
	}
	into = filepath.Join(into, filepath.Base(path))
	if err := os.CopyFS(into, os.DirFS(path)); err != nil {
		return "", err
	}
	return into, os.WriteFile(filepath.Join(into, "Chart.yaml"), text, 0o600)
}

// isDisabled reports whether the first path of a dependency's condition that has a value has false.
func isDisabled(condition string, given, defaults map[string]any) bool {
	for path := range strings.SplitSeq(condition, ",") {
		fields := strings.Split(strings.TrimSpace(path), ".")
		for _, values := range []map[string]any{given, defaults} {
			if enabled, found, err := unstructured.NestedBool(values, fields...); found && err == nil {
				return !enabled
			}
		}
	}
	return false
}

// readYAMLFile decodes a file, if there is one.
func readYAMLFile(path string, into any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}

// serverVersion returns the version of the control plane, which charts may depend on. It is that of
// the kubectl beside it, or empty.
func serverVersion(ctx context.Context, assets string) (string, error) {
	if assets == "" {
		return "", nil
	}
	text, err := output(ctx, filepath.Join(assets, "kubectl"), nil, "version", "--client", "--output=json")
	if err != nil {
		return "", err
	}
	var version struct {
		ClientVersion struct {
			GitVersion string `json:"gitVersion"`
		} `json:"clientVersion"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return "", fmt.Errorf("decoding the version of kubectl: %w", err)
	}
	return version.ClientVersion.GitVersion, nil
}
