package env

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// helmVariable names a helm program of the user's own.
	helmVariable = "HELM"
	// hookAnnotation marks objects that helm creates, and waits for, at its own time.
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
	// Values are YAML.
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
	args := []string{"template", c.Release, path, "--namespace=" + c.Namespace, "--include-crds", "--skip-tests",
		"--values=-"}
	if version, err := serverVersion(ctx, assets); err != nil {
		return nil, err
	} else if version != "" {
		args = append(args, "--kube-version="+version)
	}
	cmd := exec.CommandContext(ctx, helm, args...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Values), &out, &said
	if err := cmd.Run(); err != nil {
		err = fmt.Errorf("running helm %q: %w: %s", args, err, bytes.TrimSpace(said.Bytes()))
		if strings.Contains(said.String(), "missing in charts/ directory") {
			err = fmt.Errorf("%w; use the packaged chart (.tgz), which has its dependencies, or a copy completed by `helm dependency build`", err)
		}
		return nil, err
	}
	objs, err := decode(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("decoding what helm made: %w", err)
	}
	return objs, nil
}

// serverVersion is the version of the control plane, which charts may depend on. It is that of
// kubectl beside it, and empty without either.
func serverVersion(ctx context.Context, assets string) (string, error) {
	if assets == "" {
		return "", nil
	}
	text, err := runKubectl(ctx, filepath.Join(assets, "kubectl"), "version", "--client", "--output=json")
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
