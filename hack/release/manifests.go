package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// writeManifests writes install.yaml, which config/default renders to.
func (r *release) writeManifests(ctx context.Context, digests map[string]string) error {
	image := func(p program) string { return r.repository(p) + "@" + digests[p.name] }
	text, err := outputIn(ctx, r.clone, nil, filepath.Join(r.clone, "hack", "render.sh"), r.kustomize, "config/default",
		image(manager), image(viewer))
	if err != nil {
		return fmt.Errorf("rendering install.yaml: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.dist, "install.yaml"), []byte(text+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing install.yaml: %w", err)
	}
	return nil
}

// writeChart packs config/chart, where there is one, with the images as its default values.
// Helm dates the files of a package by the clock, so it is packed anew.
func (r *release) writeChart(ctx context.Context, digests map[string]string) error {
	chart := filepath.Join(r.clone, "config", "chart")
	values := filepath.Join(chart, "values.yaml")
	text, err := os.ReadFile(values)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the values of the chart: %w", err)
	}
	for _, p := range programs {
		if text, err = setImage(text, p.image, r.repository(p), digests[p.name]); err != nil {
			return err
		}
	}
	// The programs are built: a changed file in the clone is not stamped into them.
	if err := os.WriteFile(values, text, 0o644); err != nil {
		return fmt.Errorf("writing the values of the chart: %w", err)
	}
	fresh := filepath.Join(r.work, "chart")
	if _, err := output(ctx, r.helm, "package", chart, "--destination", fresh,
		"--version", strings.TrimPrefix(r.version, "v"), "--app-version", r.version); err != nil {
		return fmt.Errorf("packing the chart: %w", err)
	}
	packages, err := filepath.Glob(filepath.Join(fresh, "*.tgz"))
	if err != nil || len(packages) != 1 {
		return fmt.Errorf("packing the chart: helm wrote %q: %w", packages, err)
	}
	packed, err := os.ReadFile(packages[0])
	if err != nil {
		return fmt.Errorf("reading the chart: %w", err)
	}
	repacked, err := r.repack(packed)
	if err != nil {
		return fmt.Errorf("packing the chart anew: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.dist, filepath.Base(packages[0])), repacked, 0o644); err != nil {
		return fmt.Errorf("writing the chart: %w", err)
	}
	return nil
}

// setImage sets an image in the text of values.yaml, whose comments are for its readers.
func setImage(values []byte, image, repository, digest string) ([]byte, error) {
	before, after, found := strings.Cut(string(values), "repository: "+image+"\n")
	between, after, empty := strings.Cut(after, `digest: ""`)
	if !found || !empty {
		return nil, fmt.Errorf("setting the image of the chart: values.yaml has no repository %s with an empty digest", image)
	}
	return []byte(before + "repository: " + repository + "\n" + between + "digest: " + digest + after), nil
}

// repack returns a package with the same files, dated by the commit.
func (r *release) repack(packed []byte) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	var repacked bytes.Buffer
	zipped := gzip.NewWriter(&repacked)
	archive := tar.NewWriter(zipped)
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return nil, err
		}
		if err := r.addFile(archive, header.Name, 0o644, content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return repacked.Bytes(), nil
}

// writeSums writes SHA256SUMS as sha256sum --check reads it.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing the files of the release: %w", err)
	}
	var sums strings.Builder
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, entry.Name())
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		return fmt.Errorf("writing the sums: %w", err)
	}
	return nil
}

func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading a file of the release: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content)), nil
}
