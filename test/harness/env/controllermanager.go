// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"leasehold.dev/test/harness/internal/process"
)

const controllerManager = "kube-controller-manager"

// startControllerManager returns as soon as the process exists. kube-controller-manager lists
// existing objects at its start, so it misses none.
func (c *ControlPlane) startControllerManager(controllers []string) error {
	if len(controllers) == 0 {
		controllers = DefaultControllers
	}
	// Its usual ClusterRole suffices only with one more ServiceAccount for each
	// controller, so it acts as an administrator under its own name.
	added, err := c.test.AddUser(envtest.User{Name: user.KubeControllerManager, Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return fmt.Errorf("adding the user of %s: %w", controllerManager, err)
	}
	kubeconfig := filepath.Join(c.dir, controllerManager+".kubeconfig")
	if err := writeKubeconfig(kubeconfig, added.Config()); err != nil {
		return err
	}
	server := c.test.ControlPlane.GetAPIServer()
	ca := filepath.Join(server.CertDir, "ca.crt")
	if err := os.WriteFile(ca, server.CA, 0o600); err != nil {
		return fmt.Errorf("writing the API server's certificate authority: %w", err)
	}
	c.manager, err = c.watchdog.Start(process.Spec{
		Name:    controllerManager,
		Program: filepath.Join(c.assets, controllerManager),
		Args: []string{
			"--kubeconfig=" + kubeconfig,
			"--controllers=" + strings.Join(controllers, ","),
			// The key envtest makes for kube-apiserver to sign tokens with.
			"--service-account-private-key-file=" + filepath.Join(server.CertDir, "sa-signer.key"),
			"--root-ca-file=" + ca,
			"--leader-elect=false",
			"--secure-port=0",
			"--kube-api-qps=1000",
			"--kube-api-burst=2000",
		},
		Log: c.log(controllerManager),
	})
	return err
}
