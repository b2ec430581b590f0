package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// assemble puts all of it into a container of the root file system, lets the
// script in files/ finish it there, and commits the container as the image.
func (p *plan) assemble(ctx context.Context, archive string, log io.Writer) error {
	return watched(log, "node image", func() error {
		files, err := p.nodeFiles(ctx)
		if err != nil {
			return err
		}
		// Not privileged: what the script does needs only calls that the default
		// filter of system calls forbids. The label, signal and variable are
		// inherited by what is committed.
		container, err := output(ctx, p.docker, "run", "--detach", "--security-opt", "seccomp=unconfined",
			"--network", "none",
			"--label", label+"="+p.inputs, "--stop-signal", "SIGRTMIN+3", "--env", "container=docker",
			"--entrypoint", "sleep", p.root, "infinity")
		if err != nil {
			return fmt.Errorf("starting the container that becomes the image: %w", err)
		}
		// After an interrupt, too.
		defer func() { _, _ = output(context.WithoutCancel(ctx), p.docker, "rm", "--force", "--volumes", container) }()
		if err := p.fill(ctx, container, files, archive); err != nil {
			return err
		}
		_, err = output(ctx, p.docker, "commit",
			"--change", `ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]`, "--change", "CMD []", container, p.image)
		if err != nil {
			return fmt.Errorf("committing the image: %w", err)
		}
		return nil
	})
}

// fill copies the files into the container and runs the script.
func (p *plan) fill(ctx context.Context, container string, files []file, archive string) error {
	var packed bytes.Buffer
	if err := writeFiles(&packed, files); err != nil {
		return err
	}
	cp := command(ctx, p.docker, "cp", "-", container+":/")
	cp.Stdin = &packed
	if err := quietly(cp); err != nil {
		return fmt.Errorf("copying the files of the node: %w", err)
	}
	script, err := assets.ReadFile("files/finish.sh")
	if err != nil {
		return fmt.Errorf("reading the script that finishes the image: %w", err)
	}
	images, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("opening the images of the components: %w", err)
	}
	finish := command(ctx, p.docker, "exec", "--interactive", container, "bash", "-c", string(script))
	finish.Stdin = images
	if err := errors.Join(quietly(finish), images.Close()); err != nil {
		return fmt.Errorf("finishing the image: %w", err)
	}
	return nil
}

// nodeFiles is all that a node has and Debian does not: the programs, the files
// of kind's own base image, and ours.
func (p *plan) nodeFiles(ctx context.Context) ([]file, error) {
	wanted, err := p.wantedImages(ctx)
	if err != nil {
		return nil, err
	}
	kind, err := p.kindFolder(ctx)
	if err != nil {
		return nil, err
	}
	files, err := baseFiles(os.DirFS(kind), wanted["pause"])
	if err != nil {
		return nil, fmt.Errorf("reading the files of kind's base image: %w", err)
	}
	for _, prog := range programs {
		if prog.dest == "" {
			continue
		}
		text, err := os.ReadFile(p.binary(prog.name()))
		if err != nil {
			return nil, fmt.Errorf("reading a program: %w", err)
		}
		files = append(files, file{path.Join(prog.dest, prog.name()), 0o755, text})
	}
	own, err := ownFiles(wanted["kube-proxy"])
	if err != nil {
		return nil, err
	}
	files = append(files, own...)
	return append(files, file{"/kind/version", 0o644, []byte(p.version)}), nil
}

// kindFolder is where the files of kind's base image are, in Go's module cache.
func (p *plan) kindFolder(ctx context.Context) (string, error) {
	cmd := command(ctx, p.goCmd, "mod", "download", "-json", kindModule)
	cmd.Dir = toolsModule
	var answer bytes.Buffer
	cmd.Stdout = &answer
	if err := quietly(cmd); err != nil {
		return "", fmt.Errorf("fetching the module of kind: %w", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(answer.Bytes(), &module); err != nil {
		return "", fmt.Errorf("reading where the module of kind is: %w", err)
	}
	return path.Join(module.Dir, "images/base/files"), nil
}

// baseFiles reads the files of kind's base image, which a module has without
// the right to be executed, and turns containerd's configuration into ours.
func baseFiles(base fs.FS, pause string) ([]file, error) {
	var files []file
	err := fs.WalkDir(base, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(base, name)
		if err != nil {
			return err
		}
		f := file{"/" + name, 0o644, text}
		switch {
		case path.Base(path.Dir(name)) == "bin":
			f.mode = 0o755
		case name == "etc/containerd/config.toml":
			f.text, err = containerdConfig(string(text), pause)
		case name == "etc/default/kubelet":
			// Kubernetes refuses hosts with cgroup v1 unless configured otherwise; on
			// others this says nothing.
			f.text = append(bytes.TrimSpace(text), " --fail-cgroupv1=false\n"...)
		}
		files = append(files, f)
		return err
	})
	return files, err
}

// containerdConfig changes what kind's configuration of containerd says: the
// pause image is the one that is there, a host may forbid to lower a process's
// chance to be killed for memory, and Pods get their network from our template.
func containerdConfig(text, pause string) ([]byte, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	changes := map[string]string{
		"sandbox_image":          fmt.Sprintf("  sandbox_image = %q", pause),
		"restrict_oom_score_adj": "  restrict_oom_score_adj = true",
	}
	for i, line := range lines {
		key, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if change, ok := changes[key]; ok {
			lines[i] = change
			delete(changes, key)
		}
	}
	for key := range changes {
		return nil, fmt.Errorf("containerd's configuration says nothing of %s any more", key)
	}
	lines = append(lines, `[plugins."io.containerd.grpc.v1.cri".cni]`,
		`  conf_template = "/etc/containerd/cni.template"`, "")
	return []byte(strings.Join(lines, "\n")), nil
}

// ownFiles are those in files/. The routes of the default network are set by a
// container of the one image that has the programs for it.
func ownFiles(proxyImage string) ([]file, error) {
	var files []file
	for _, own := range []struct{ asset, dest string }{
		{"cni.template", "/etc/containerd/cni.template"},
		{"default-cni.yaml", "/kind/manifests/default-cni.yaml"},
		{"default-storage.yaml", "/kind/manifests/default-storage.yaml"},
	} {
		text, err := assets.ReadFile("files/" + own.asset)
		if err != nil {
			return nil, fmt.Errorf("reading our own files: %w", err)
		}
		files = append(files, file{own.dest, 0o644, bytes.ReplaceAll(text, []byte("KUBE_PROXY_IMAGE"), []byte(proxyImage))})
	}
	return files, nil
}
