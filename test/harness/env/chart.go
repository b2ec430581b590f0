// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	if path, err = withStubs(path, temp); err != nil {
		return nil, fmt.Errorf("preparing the dependencies of the chart: %w", err)
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

// withStubs returns a copy of a chart's folder with a stub for each missing dependency that may be disabled: helm
// refuses a missing one before it reads whether it is enabled. An enabled stub fails. If none is missing, it returns
// the folder.
func withStubs(path, into string) (string, error) {
	if !hasFile(path, "Chart.yaml") {
		return path, nil // a package has its dependencies
	}
	text, err := os.ReadFile(filepath.Join(path, "Chart.yaml"))
	var metadata map[string]any
	if err := errors.Join(err, yaml.Unmarshal(text, &metadata)); err != nil {
		return "", err
	}
	files := map[string]string{}
	all, _ := metadata["dependencies"].([]any)
	for _, dependency := range all {
		fields, _ := dependency.(map[string]any)
		name, _ := fields["name"].(string)
		there, err := filepath.Glob(filepath.Join(path, "charts", name+"*"))
		if err != nil || len(there) > 0 || fields["condition"] == nil && fields["tags"] == nil {
			continue
		}
		fields["version"] = "0.0.0"
		stub := filepath.Join("charts", name)
		files[filepath.Join(stub, "Chart.yaml")] = fmt.Sprintf("{apiVersion: v2, name: %q, version: 0.0.0}", name)
		files[filepath.Join(stub, "templates", "fail.yaml")] =
			fmt.Sprintf(`{{ fail "missing in charts/ directory: %s" }}`, name)
	}
	if len(files) == 0 {
		return path, nil
	}
	changed, err := yaml.Marshal(metadata)
	files["Chart.yaml"] = string(changed)
	into = filepath.Join(into, filepath.Base(path))
	err = errors.Join(err, os.CopyFS(into, os.DirFS(path)))
	for file, text := range files {
		file = filepath.Join(into, file)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o750), os.WriteFile(file, []byte(text), 0o600))
	}
	return into, err
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
