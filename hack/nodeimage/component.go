package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// component is an image that kubeadm wants: one program, alone or on the root
// file system.
type component struct {
	program string
	onRoot  bool // it runs other programs: nft, iptables
}

// components by the last part of their image's name.
var components = map[string]component{
	"kube-apiserver":          {program: "kube-apiserver"},
	"kube-controller-manager": {program: "kube-controller-manager"},
	"kube-scheduler":          {program: "kube-scheduler"},
	"kube-proxy":              {program: "kube-proxy", onRoot: true},
	"etcd":                    {program: "etcd"},
	"coredns":                 {program: "coredns"},
	"pause":                   {program: "pause"},
}

// wantedImages reads what `kubeadm config images list` says into image names by component.
func wantedImages(list string) (map[string]string, error) {
	wanted := map[string]string{}
	for image := range strings.FieldsSeq(list) {
		repository, _, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
		if _, known := components[repository]; !known {
			return nil, fmt.Errorf("kubeadm wants %s, and nothing here builds it", image)
		}
		wanted[repository] = image
	}
	for repository := range components {
		if wanted[repository] == "" {
			return nil, fmt.Errorf("kubeadm wants no image called %s any more", repository)
		}
	}
	return wanted, nil
}

func (p *plan) wantedImages(ctx context.Context) (map[string]string, error) {
	list, err := output(ctx, p.binary("kubeadm"), "config", "images", "list", "--kubernetes-version", p.version)
	if err != nil {
		return nil, fmt.Errorf("asking kubeadm for its images: %w", err)
	}
	return wantedImages(list)
}

// packComponents writes the components' images into one archive, as `docker
// save` would, and returns its name.
func (p *plan) packComponents(ctx context.Context, log io.Writer) (string, error) {
	archive := filepath.Join(p.out, "components.tar")
	return archive, watched(log, "images of the components", func() error {
		wanted, err := p.wantedImages(ctx)
		if err != nil {
			return err
		}
		rootArchive := filepath.Join(p.out, "root.tar")
		defer func() { _ = os.Remove(rootArchive) }() // made anew by the next run
		if _, err := output(ctx, p.docker, "save", "--output", rootArchive, p.root); err != nil {
			return fmt.Errorf("saving the root file system: %w", err)
		}
		root, err := tarball.ImageFromPath(rootArchive, nil)
		if err != nil {
			return fmt.Errorf("reading the root file system: %w", err)
		}
		images := map[name.Reference]v1.Image{}
		for repository, reference := range wanted {
			ref, err := name.ParseReference(reference)
			if err != nil {
				return fmt.Errorf("reading what kubeadm wants: %w", err)
			}
			base := empty.Image
			if components[repository].onRoot {
				base = root
			}
			if images[ref], err = withProgram(base, p.binary(components[repository].program)); err != nil {
				return fmt.Errorf("making the image %s: %w", reference, err)
			}
		}
		if err := tarball.MultiRefWriteToFile(archive, images); err != nil {
			return fmt.Errorf("writing the images of the components: %w", err)
		}
		return nil
	})
}

// withProgram is base and the program, which the image starts.
func withProgram(base v1.Image, binary string) (v1.Image, error) {
	inside := path.Join("/usr/local/bin", filepath.Base(binary))
	text, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	if err := writeFiles(&files, []file{{inside, 0o755, text}}); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{inside}
	config.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return mutate.ConfigFile(image, config)
}

// file is one file of an image.
type file struct {
	path string
	mode int64
	text []byte
}

// writeFiles writes files of root, all of the same age, so that builds can be repeated.
func writeFiles(w io.Writer, files []file) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.path, "/"), Mode: f.mode,
			Size: int64(len(f.text))}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("packing %s: %w", f.path, err)
		}
		if _, err := archive.Write(f.text); err != nil {
			return fmt.Errorf("packing %s: %w", f.path, err)
		}
	}
	return archive.Close()
}
