package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/leasehold"
)

const (
	// clusterCurrent is the value of -cluster that selects the current kubeconfig.
	clusterCurrent = "current"
	// installedWebhooks is there wherever Leasehold is installed, by the chart too.
	installedWebhooks = "leasehold-validating-webhook-configuration"
	// stopTimeout is longer than the manager takes to stop by itself.
	stopTimeout = 45 * time.Second
)

// notServed is what an installation has and this operator lacks.
const notServed = `not served here, in contrast to an installation:
- admission webhooks: no warning before a deletion, no check of names that other Tenants hold, no check of pages
- the fence and the leader election: run one operator only
- the shipped rights: the operator acts with all rights of your kubeconfig
- viewer images: the cluster pulls leasehold-viewer:dev, unless a MarkdownView names another image
make uninstall removes the definitions again, with all objects of their kinds.`

// runCurrent runs the operator of this checkout against the cluster of the current kubeconfig. It
// applies the definitions and nothing else.
func runCurrent(ctx context.Context, s *settings, out *progress) (err error) {
	kubeconfig, err := pinKubeconfig(s, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(kubeconfig)) }()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: leasehold.Scheme()})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	switch err := c.Get(ctx, client.ObjectKey{Name: installedWebhooks},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}); {
	case err == nil:
		return fmt.Errorf("the cluster has %s: Leasehold is installed there, and two operators would compete; "+
			"nothing has been changed", installedWebhooks)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("looking for an installation: %w", err)
	}
	if err := applyDefinitions(ctx, c, s.config, out); err != nil {
		return err
	}
	out.printf("operator", "%s", notServed)
	return runManager(ctx, s, out, kubeconfig)
}

// pinKubeconfig writes the current context to a file of its own: another context may become the
// current one while the operator runs.
func pinKubeconfig(s *settings, out *progress) (path string, err error) {
	raw, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if err := clientcmdapi.MinifyConfig(raw); err != nil {
		return "", fmt.Errorf("finding the current context: %w", err)
	}
	if err := clientcmdapi.FlattenConfig(raw); err != nil {
		return "", fmt.Errorf("reading the files of the current context: %w", err)
	}
	for name, cluster := range raw.Clusters {
		out.printf("cluster", "context %s, cluster %s at %s", raw.CurrentContext, name, cluster.Server)
	}
	if err := os.MkdirAll(s.workDir, 0o700); err != nil {
		return "", fmt.Errorf("creating the folder of the kubeconfig: %w", err)
	}
	file, err := os.CreateTemp(s.workDir, "kubeconfig-") // readable by this user only
	if err != nil {
		return "", fmt.Errorf("creating the kubeconfig: %w", err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("creating the kubeconfig: %w", err)
	}
	if err := clientcmd.WriteToFile(*raw, file.Name()); err != nil {
		return "", fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return file.Name(), nil
}

// applyDefinitions acts as `make install` does, so that either can follow the other. It forces
// nothing: a definition that another manager applied may have fields that this one lacks, and the
// API server would drop these from each object at its next write. A dry run of all definitions
// precedes, so a conflict changes nothing.
func applyDefinitions(ctx context.Context, c client.Client, config string, out *progress) error {
	definitions, err := readDefinitions(config)
	if err != nil {
		return err
	}
	owner := client.FieldOwner("kubectl")
	for _, definition := range definitions {
		trial := client.ApplyConfigurationFromUnstructured(definition.DeepCopy())
		if err := c.Apply(ctx, trial, owner, client.DryRunAll); err != nil {
			return fmt.Errorf("applying CustomResourceDefinition %s, nothing has been changed: %w", definition.GetName(), err)
		}
	}
	for _, definition := range definitions {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(definition), owner); err != nil {
			return fmt.Errorf("applying CustomResourceDefinition %s: %w", definition.GetName(), err)
		}
		out.printf("install", "applied CustomResourceDefinition %s", definition.GetName())
	}
	out.printf("install", "nothing else is installed, no samples either: kubectl apply -k config/samples")
	return nil
}

// readDefinitions returns the definitions of the configuration.
func readDefinitions(config string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(config, "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("finding the definitions in %s: %d files (%w)", config, len(files), err)
	}
	var definitions []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a definition: %w", err)
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &definition.Object); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", file, err)
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// runManager runs the operator until ctx is done.
func runManager(ctx context.Context, s *settings, out *progress, kubeconfig string) error {
	cmd := exec.CommandContext(ctx, s.manager, "--kubeconfig="+kubeconfig, "--enable-webhooks=false",
		"--leader-election-namespace="+leasehold.Namespace, "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--zap-encoder=console")
	cmd.Stdout, cmd.Stderr = out.out, out.out
	// A group of its own: Ctrl-C reaches this process, and a second signal would end the operator
	// at once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("running the operator: %w", err)
	}
	out.printf("stopping", "the operator has ended; the definitions and all objects stay")
	return nil
}
