package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"leasehold.dev/test/harness/controlplane"
)

// program is one thing to compile.
type program struct {
	module string // folder of the go.mod that pins it
	pkg    string // import path of its main package
	dest   string // folder in the node; empty for what runs only in an image of its own
}

// programs in build order: the small ones first, and those that share most one
// after the other.
var programs = []program{
	{".", "leasehold.dev/hack/nodeimage/pause", ""},
	{"kubernetes", "go.etcd.io/etcd/server/v3", ""},
	{"kubernetes", "k8s.io/kubernetes/cmd/kubeadm", "/usr/bin"},
	{"kubernetes", "k8s.io/kubernetes/cmd/kubectl", "/usr/bin"},
	{"kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", ""},
	{"kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", ""},
	{"kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", ""},
	{"kubernetes", "k8s.io/kubernetes/cmd/kube-proxy", ""},
	{"kubernetes", "k8s.io/kubernetes/cmd/kubelet", "/usr/bin"},
	{"node", "github.com/containernetworking/plugins/plugins/ipam/host-local", "/opt/cni/bin"},
	{"node", "github.com/containernetworking/plugins/plugins/main/loopback", "/opt/cni/bin"},
	{"node", "github.com/containernetworking/plugins/plugins/main/ptp", "/opt/cni/bin"},
	{"node", "github.com/containernetworking/plugins/plugins/meta/portmap", "/opt/cni/bin"},
	{"node", "github.com/containerd/containerd/v2/cmd/containerd", "/usr/local/bin"},
	{"node", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", "/usr/local/bin"},
	{"node", "github.com/containerd/containerd/v2/cmd/ctr", "/usr/local/bin"},
	{"node", "sigs.k8s.io/cri-tools/cmd/crictl", "/usr/local/bin"},
	{"node", "github.com/coredns/coredns", ""},
}

// name is what the binary is called. etcd's main package is called as its version.
func (p program) name() string {
	if p.pkg == "go.etcd.io/etcd/server/v3" {
		return "etcd"
	}
	return path.Base(p.pkg)
}

// binary is where a program stands after compile.
func (p *plan) binary(name string) string {
	return filepath.Join(p.out, fmt.Sprintf("%s-linux-%s", p.version, runtime.GOARCH), name)
}

// compile builds every program. Go's build cache knows what is built already.
func (p *plan) compile(ctx context.Context, log io.Writer) error {
	for i, prog := range programs {
		step := fmt.Sprintf("[%d/%d] %s", i+1, len(programs), prog.name())
		err := watched(log, step, func() error {
			ldflags := "-s -w"
			if prog.module == "kubernetes" {
				ldflags = controlplane.LDFlags(p.version)
			}
			cmd := command(ctx, p.goCmd, "build", "-trimpath", "-ldflags", ldflags, "-o", p.binary(prog.name()), prog.pkg)
			cmd.Dir = prog.module
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
			return quietly(cmd)
		})
		if err != nil {
			return fmt.Errorf("building %s: %w", prog.name(), err)
		}
	}
	return nil
}
