// SPDX-License-Identifier: Apache-2.0

package env

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"leasehold.dev/test/harness/internal/process"
)

// assetsVariable names the folder of control plane programs, as for envtest.
const assetsVariable = "KUBEBUILDER_ASSETS"

// builtAssets is where `make controlplane` leaves them, below the module's root.
var builtAssets = filepath.Join("bin", "controlplane", "current")

// ErrNoAssets is returned if this machine has no control plane to start.
var ErrNoAssets = errors.New("there is no control plane: run `make controlplane` or setup-envtest, or set " +
	assetsVariable + " to an absolute path of the programs")

// CheckControllers returns an error if the control plane that Start would start has no kube-controller-manager,
// which a caller may need.
func CheckControllers() error {
	dir, err := FindAssets()
	if err == nil && os.Getenv(existingVariable) != "true" && !hasFile(dir, controllerManager) {
		err = fmt.Errorf("%s has no %s, which creates Pods and removes deleted objects: unset %s and run "+
			"`make controlplane`", dir, controllerManager, assetsVariable)
	}
	return err
}

// FindAssets returns the folder that contains etcd, kube-apiserver and kubectl. If
// KUBEBUILDER_ASSETS is set, it is that folder. Otherwise it is the one that `make controlplane`
// built in the module of the working directory or in a module around it, or else the newest that
// setup-envtest has installed for this user. It returns ErrNoAssets, wrapped, if there is no such
// folder.
func FindAssets() (string, error) {
	if dir := os.Getenv(assetsVariable); dir != "" {
		// A test runs in the folder of its package.
		at, err := filepath.Abs(dir)
		if err == nil {
			err = checkAssets(at)
		}
		if err != nil {
			return "", fmt.Errorf("looking in %s (%s is set to %s): %w", at, assetsVariable, dir, err)
		}
		return at, nil
	}
	built, err := process.Upwards(builtAssets, func(path string) bool { return checkAssets(path) == nil }, ErrNoAssets)
	if errors.Is(err, ErrNoAssets) {
		if dir := installedAssets(); dir != "" {
			return dir, nil
		}
	}
	if err != nil {
		return "", err
	}
	// The versioned folder itself: a rebuild may point the link elsewhere.
	return filepath.EvalSymlinks(built)
}

// installedAssets returns the newest complete folder of setup-envtest for this machine, or "".
// setup-envtest names its folders version-os-arch, below the user's folder for data.
func installedAssets() string {
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		data = filepath.Join(home, ".local", "share")
	}
	platform := "-" + runtime.GOOS + "-" + runtime.GOARCH
	folders, err := filepath.Glob(filepath.Join(data, "kubebuilder-envtest", "k8s", "*"+platform))
	if err != nil {
		return ""
	}
	var newest *version.Version
	var found string
	for _, dir := range folders {
		v, err := version.ParseSemantic(strings.TrimSuffix(filepath.Base(dir), platform))
		if err == nil && checkAssets(dir) == nil && (newest == nil || newest.LessThan(v)) {
			newest, found = v, dir
		}
	}
	return found
}

// FindHelm returns the path in $HELM, or else that of the program that `make bin/tools/helm` built.
// It returns ErrNoHelm, wrapped, if there is neither.
func FindHelm() (string, error) { return process.Find(helmVariable, builtHelm, ErrNoHelm) }

func checkAssets(dir string) error {
	for _, program := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s is missing: %w", program, ErrNoAssets)
			}
			return err
		}
	}
	return nil
}

func hasFile(dir, name string) bool { return process.IsFile(filepath.Join(dir, name)) }

// kubectl returns the kubectl of the assets, or with no assets the user's own.
func kubectl(assets string) (string, error) {
	if assets != "" {
		return filepath.Join(assets, "kubectl"), nil
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return "", fmt.Errorf("finding kubectl: %w", err)
	}
	return path, nil
}
