package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/v1/empty"
)

const kubeadmList = `registry.test/kube-apiserver:v1.36.3
registry.test/kube-controller-manager:v1.36.3
registry.test/kube-scheduler:v1.36.3
registry.test/kube-proxy:v1.36.3
registry.test/coredns/coredns:v1.14.2
registry.test/pause:3.10.2
registry.test/etcd:3.6.8-0`

func TestWantedImages(t *testing.T) {
	wanted, err := wantedImages(kubeadmList)
	if err != nil || wanted["coredns"] != "registry.test/coredns/coredns:v1.14.2" ||
		wanted["pause"] != "registry.test/pause:3.10.2" {
		t.Errorf("got %v, %v", wanted, err)
	}
	if _, err := wantedImages(kubeadmList + "\nregistry.test:5000/new:v1"); err == nil ||
		!strings.Contains(err.Error(), "nothing here builds it") {
		t.Errorf("an image that nobody builds: %v", err)
	}
	if _, err := wantedImages(strings.ReplaceAll(kubeadmList, "registry.test/pause:3.10.2", "")); err == nil ||
		!strings.Contains(err.Error(), "pause") {
		t.Errorf("an image that is not wanted any more: %v", err)
	}
}

func TestComponentsAreBuilt(t *testing.T) {
	for repository, component := range components {
		if !slices.ContainsFunc(programs, func(p program) bool { return p.name() == component.program }) {
			t.Errorf("%s wants the program %s, and nothing builds it", repository, component.program)
		}
	}
}

func TestWithProgram(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "prog", "binary")
	image, err := withProgram(empty.Image, filepath.Join(dir, "prog"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config.Entrypoint; !slices.Equal(got, []string{"/usr/local/bin/prog"}) ||
		config.Architecture != runtime.GOARCH {
		t.Errorf("the image starts %v on %s", got, config.Architecture)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers %v, %v", layers, err)
	}
	text, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	archive := tar.NewReader(text)
	header, err := archive.Next()
	if err != nil || header.Name != "usr/local/bin/prog" || header.Mode != 0o755 {
		t.Fatalf("got %+v, %v", header, err)
	}
	if content, err := io.ReadAll(archive); err != nil || string(content) != "binary" {
		t.Errorf("got %q, %v", content, err)
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("there is more: %v", err)
	}
}

const kindConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  # restrict_oom_score_adj matters
  sandbox_image = "registry.test/pause:3.10"
  restrict_oom_score_adj = false
`

func TestBaseFiles(t *testing.T) {
	base := fstest.MapFS{
		"usr/local/bin/entrypoint":   {Data: []byte("#!/bin/bash\n"), Mode: 0o444},
		"etc/containerd/config.toml": {Data: []byte(kindConfig), Mode: 0o444},
		"etc/default/kubelet":        {Data: []byte("KUBELET_EXTRA_ARGS=--runtime-cgroups=/x\n"), Mode: 0o444},
	}
	files, err := baseFiles(base, "registry.test/pause:3.10.2")
	if err != nil || len(files) != 3 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, f := range files {
		wantMode, text := int64(0o644), string(f.text)
		switch f.path {
		case "/usr/local/bin/entrypoint":
			wantMode = 0o755
		case "/etc/containerd/config.toml":
			for _, want := range []string{`  sandbox_image = "registry.test/pause:3.10.2"`,
				"\n  restrict_oom_score_adj = true\n", "# restrict_oom_score_adj matters",
				"\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\n  conf_template"} {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
		case "/etc/default/kubelet":
			if text != "KUBELET_EXTRA_ARGS=--runtime-cgroups=/x --fail-cgroupv1=false\n" {
				t.Errorf("kubelet's arguments: %q", text)
			}
		}
		if f.mode != wantMode {
			t.Errorf("%s has mode %o, want %o", f.path, f.mode, wantMode)
		}
	}
}

func TestContainerdConfigThatChanged(t *testing.T) {
	_, err := containerdConfig("version = 3\nsandbox_image = \"x\"\n", "pause")
	if err == nil || !strings.Contains(err.Error(), "restrict_oom_score_adj") {
		t.Errorf("error %v does not say what is not there any more", err)
	}
}

func TestOwnFiles(t *testing.T) {
	files, err := ownFiles("registry.test/kube-proxy:v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, f := range files {
		content[f.path] = string(f.text)
	}
	if got := content["/kind/manifests/default-cni.yaml"]; !strings.Contains(got,
		"image: registry.test/kube-proxy:v1.36.3\n") {
		t.Errorf("the routes run in no image that is there:\n%s", got)
	}
	if content["/kind/manifests/default-storage.yaml"] == "" {
		t.Error("kind finds no default storage")
	}
	// containerd fills the template in; the rest has to be JSON by then.
	filled := strings.ReplaceAll(content["/etc/containerd/cni.template"], "{{.PodCIDR}}", "10.244.1.0/24")
	var network struct{ Plugins []struct{ Type string } }
	if err := json.Unmarshal([]byte(filled), &network); err != nil {
		t.Fatal(err)
	}
	for _, plugin := range network.Plugins {
		if !slices.ContainsFunc(programs,
			func(p program) bool { return p.name() == plugin.Type && p.dest == "/opt/cni/bin" }) {
			t.Errorf("the plugin %s is not in the image", plugin.Type)
		}
	}
}
