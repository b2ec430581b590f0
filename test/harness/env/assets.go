package env

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// assetsVariable names the folder of control plane programs, as for envtest.
const assetsVariable = "KUBEBUILDER_ASSETS"

// builtAssets is where `make controlplane` leaves them, below the module's root.
var builtAssets = filepath.Join("bin", "controlplane", "current")

// ErrNoAssets says that there is no control plane to start on this machine.
var ErrNoAssets = errors.New("no control plane has been built: run `make controlplane`, or set " + assetsVariable)

// FindAssets returns the folder that holds etcd, kube-apiserver and kubectl:
// dir if it is not empty, else $KUBEBUILDER_ASSETS, else what `make
// controlplane` built in the module that contains the working directory or in
// one around it. It returns ErrNoAssets, wrapped, when none of them is there.
func FindAssets(dir string) (string, error) {
	source := "the given folder"
	if dir == "" {
		dir, source = os.Getenv(assetsVariable), assetsVariable
	}
	if dir != "" {
		if err := checkAssets(dir); err != nil {
			return "", fmt.Errorf("looking in %s (%s): %w", dir, source, err)
		}
		return filepath.Abs(dir)
	}
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for at := start; ; at = filepath.Dir(at) {
		if hasFile(at, "go.mod") && checkAssets(filepath.Join(at, builtAssets)) == nil {
			// The versioned folder itself: a rebuild may point the link elsewhere.
			return filepath.EvalSymlinks(filepath.Join(at, builtAssets))
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("looking for %s from %s upwards: %w", builtAssets, start, ErrNoAssets)
		}
	}
}

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

func hasFile(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

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
