package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user has no rights on the host. It is a number, by which the kubelet sees that it is not root.
const user = "65532:65532"

// repository is the name of a program's image, without tag and digest.
func (r *release) repository(p program) string { return r.registry + "/" + p.image }

// annotations describe the sources of an image.
func (r *release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.created":  r.time.Format("2006-01-02T15:04:05Z"),
		"org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.version":  r.version,
	}
}

// writeImage writes a program's images for all platforms as one archive, and returns the
// digest of the index. The archive is an OCI layout, which containerd, podman, crane and
// Docker's containerd store read. Docker's older store reads its manifest.json instead, which
// knows no platforms, so each image has a tag of its own there.
func (r *release) writeImage(p program) (digest string, err error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var saved tarball.Manifest
	for _, arch := range architectures {
		image, err := r.image(p, arch)
		if err != nil {
			return "", fmt.Errorf("making the image of %s: %w", p.binary(arch), err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
		descriptor, err := savedImage(image, r.repository(p)+":"+r.version+"-"+arch)
		if err != nil {
			return "", fmt.Errorf("describing the image of %s: %w", p.binary(arch), err)
		}
		saved = append(saved, descriptor)
	}
	index, _ = mutate.Annotations(index, r.annotations()).(v1.ImageIndex)
	sum, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("computing the digest of %s: %w", p.image, err)
	}
	if err := r.writeArchive(p, index, saved); err != nil {
		return "", fmt.Errorf("writing the archive of %s: %w", p.image, err)
	}
	return sum.String(), nil
}

// image has the program and nothing else in it, as the Dockerfile has it.
func (r *release) image(p program, arch string) (v1.Image, error) {
	content, err := os.ReadFile(filepath.Join(r.dist, p.binary(arch)))
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	if err := errors.Join(r.addFile(archive, p.name, 0o755, content), archive.Close()); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	config := v1.Config{User: user, Entrypoint: []string{"/" + p.name}, Labels: r.annotations()}
	for _, port := range p.ports {
		if config.ExposedPorts == nil {
			config.ExposedPorts = map[string]struct{}{}
		}
		config.ExposedPorts[port] = struct{}{}
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: r.time}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: created, Config: config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer,
		History: v1.History{Created: created, CreatedBy: "hack/release"}})
}

// savedImage is the entry of an image in manifest.json.
func savedImage(image v1.Image, tag string) (tarball.Descriptor, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return tarball.Descriptor{}, err
	}
	blob := func(hash v1.Hash) string { return "blobs/" + hash.Algorithm + "/" + hash.Hex }
	descriptor := tarball.Descriptor{Config: blob(manifest.Config.Digest), RepoTags: []string{tag}}
	for _, layer := range manifest.Layers {
		descriptor.Layers = append(descriptor.Layers, blob(layer.Digest))
	}
	return descriptor, nil
}

// writeArchive writes an index as an OCI layout in a tar file.
func (r *release) writeArchive(p program, index v1.ImageIndex, saved tarball.Manifest) (err error) {
	dir, err := os.MkdirTemp(r.work, "layout-")
	if err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          r.repository(p) + ":" + r.version,
		"org.opencontainers.image.ref.name": r.version,
	})); err != nil {
		return err
	}
	list, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), list, 0o644); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.dist, p.name+"-image.tar"))
	if err != nil {
		return err
	}
	archive := tar.NewWriter(file)
	defer func() { err = errors.Join(err, archive.Close(), file.Close()) }()
	// It walks in the order of the names.
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return r.addFile(archive, filepath.ToSlash(name), 0o644, content)
	})
}

// addFile adds a file to an archive, owned by root and dated by the commit.
func (r *release) addFile(archive *tar.Writer, name string, mode int64, content []byte) error {
	if err := archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: r.time, Format: tar.FormatUSTAR,
	}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
