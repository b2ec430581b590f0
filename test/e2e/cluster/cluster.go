// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/e2e-framework/support"
	"sigs.k8s.io/e2e-framework/support/kind"
)

// Options describe a cluster.
type Options struct {
	// Name of the cluster. If a cluster of that name exists, Reuse decides whether it is used or is
	// an error.
	Name  string
	Reuse bool
	// Keep keeps the cluster when it is stopped.
	Keep bool
	// Kind is the kind command. Empty: kind, from the PATH.
	Kind string
	// NodeImage is the image of the nodes. Empty: kind's default.
	NodeImage string
	// Workers is the number of nodes beside the control plane.
	Workers int
	// Images are loaded into the nodes from the local container engine.
	Images []string
	// Dir receives kubeconfig, kind's configuration and the audit log.
	Dir string
	// The audit log has request and response of each write by AuditUsers and by users in AuditGroups.
	AuditUsers, AuditGroups []string
	// Progress receives a line for each step. Nil: no output.
	Progress io.Writer
}

// Cluster is a running kind cluster. Its methods may be called from several
// goroutines.
type Cluster struct {
	options    Options
	provider   support.E2EClusterProvider
	kubeconfig string
	config     *rest.Config
	clients    *kubernetes.Clientset
	made       bool // by this run, at least in part

	audit sync.Mutex // serializes copies of the log
}

// Start creates a cluster, or connects to an existing one, and loads the images. It returns when
// the nodes are Ready. It deletes a cluster that it could not complete, unless the options keep it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Kind == "" {
		o.Kind = "kind"
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	c := &Cluster{options: o, kubeconfig: filepath.Join(o.Dir, "kubeconfig")}
	c.provider = kind.NewProvider().WithName(o.Name).WithOpts(kind.WithPath(o.Kind), kind.WithImage(o.NodeImage))
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("starting cluster %s: %w", o.Name, err)
		if c.made && !o.Reuse {
			err = errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
		}
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := os.MkdirAll(c.options.Dir, 0o755); err != nil {
		return fmt.Errorf("making its folder: %w", err)
	}
	there, err := c.exists(ctx)
	if err != nil {
		return err
	}
	if there && !c.options.Reuse {
		return errors.New("there is one of that name already: choose another, or reuse it")
	}
	if err := c.create(ctx, there); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.load(ctx); err != nil {
		return err
	}
	if err := c.awaitNodes(ctx); err != nil {
		return err
	}
	return c.awaitDaemons(ctx)
}

// create creates the cluster with kind, unless it exists. Without the flag the provider would also
// write to the user's kubeconfig.
func (c *Cluster) create(ctx context.Context, there bool) error {
	if there {
		c.logf("using cluster %s as it is", c.options.Name)
		output, err := run(ctx, c.options.Kind, "export", "kubeconfig", "--name", c.options.Name, "--kubeconfig", c.kubeconfig)
		if err != nil {
			return fmt.Errorf("reading its kubeconfig: %w: %s", err, output)
		}
		return nil
	}
	config, err := c.writeConfig()
	if err != nil {
		return err
	}
	c.made = true
	c.logf("creating cluster %s: 1 control plane, %d workers, node image %s", c.options.Name, c.options.Workers,
		c.options.NodeImage)
	exported, err := c.provider.Create(ctx, "--config", config, "--kubeconfig", c.kubeconfig, "--wait", "2m")
	if err != nil {
		return err
	}
	// The provider keeps a second copy in the temporary directory.
	if err := os.Remove(exported); err != nil {
		return fmt.Errorf("removing the second kubeconfig: %w", err)
	}
	return nil
}

func (c *Cluster) connect() error {
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		return fmt.Errorf("reading its kubeconfig: %w", err)
	}
	// Tests are not rate limited.
	c.config.QPS, c.config.Burst = 200, 400
	c.config.WarningHandler = rest.NoWarnings{} // Objects lists deprecated kinds too
	if c.clients, err = kubernetes.NewForConfig(c.config); err != nil {
		return fmt.Errorf("building its client: %w", err)
	}
	return nil
}

// Config returns the administrator's client configuration.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Clients returns typed clients of the administrator.
func (c *Cluster) Clients() *kubernetes.Clientset { return c.clients }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Stop deletes the cluster, unless it existed before or the options keep it.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.options.Reuse || c.options.Keep {
		c.logf("leaving cluster %s: KUBECONFIG=%s; `kind delete cluster --name %s` removes it", c.options.Name, c.kubeconfig,
			c.options.Name)
		return nil
	}
	c.logf("deleting cluster %s", c.options.Name)
	output, err := run(ctx, c.options.Kind, "delete", "cluster", "--name", c.options.Name, "--kubeconfig", c.kubeconfig)
	if err != nil {
		return fmt.Errorf("deleting cluster %s: %w: %s", c.options.Name, err, output)
	}
	return nil
}

func (c *Cluster) logf(format string, args ...any) {
	fmt.Fprintf(c.options.Progress, format+"\n", args...)
}
