// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/sandbox"
)

const (
	// volumeTimeout bounds the wait for a Secret or ConfigMap that does not exist yet. A Pod waits
	// for it without a limit.
	volumeTimeout = 30 * time.Second
	volumePoll    = 200 * time.Millisecond
	// volumeUpdate is the period in which changed Secrets and ConfigMaps reach their files. A
	// kubelet takes up to a minute.
	volumeUpdate = 5 * time.Second
)

// podVolumes are the volumes that the first container of a Pod mounts.
type podVolumes struct {
	template  corev1.PodTemplateSpec
	pod       types.NamespacedName
	uid       types.UID
	client    client.Reader
	authority string // the certificate of the API server as the replica reaches it
	token     func(ctx context.Context, audience string) (string, error)

	folders map[string]*contentFolder // by volume, of those that have content
}

func (v *podVolumes) container() corev1.Container { return v.template.Spec.Containers[0] }

// mountsAccount reports whether a Pod gets the files of its ServiceAccount without a volume.
func (v *podVolumes) mountsAccount() bool {
	return ptr.Deref(v.template.Spec.AutomountServiceAccountToken, true) &&
		!slices.ContainsFunc(v.container().VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.MountPath == accountFolder })
}

// mounts writes the volumes to folders below a folder, and returns their mounts.
func (v *podVolumes) mounts(ctx context.Context, below string) ([]sandbox.Mount, error) {
	v.folders = map[string]*contentFolder{}
	var mounts []sandbox.Mount
	for _, m := range v.container().VolumeMounts {
		i := slices.IndexFunc(v.template.Spec.Volumes, func(o corev1.Volume) bool { return o.Name == m.Name })
		if i < 0 {
			return nil, fmt.Errorf("mounting %s: there is no volume %s", m.MountPath, m.Name)
		}
		volume := v.template.Spec.Volumes[i]
		source := filepath.Join(below, m.Name)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return nil, err
		}
		if err := v.fill(ctx, volume, source); err != nil {
			return nil, fmt.Errorf("providing the volume %s: %w", m.Name, err)
		}
		isContent := v.folders[m.Name] != nil
		if m.SubPath != "" {
			source = filepath.Join(source, filepath.FromSlash(m.SubPath))
			if !isContent {
				if err := os.MkdirAll(source, 0o755); err != nil {
					return nil, err
				}
			}
			// Like a Pod, a container that mounts a part gets no updates.
			var err error
			if source, err = filepath.EvalSymlinks(source); err != nil {
				return nil, fmt.Errorf("mounting %s: %w", m.MountPath, err)
			}
		}
		mounts = append(mounts, sandbox.Mount{Source: source, Target: m.MountPath, ReadOnly: m.ReadOnly || isContent})
	}
	return mounts, nil
}

// fill writes the content of a volume, and waits for the objects that it needs.
func (v *podVolumes) fill(ctx context.Context, volume corev1.Volume, folder string) error {
	if volume.EmptyDir != nil {
		return nil
	}
	var content map[string]string
	var last error
	err := wait.PollUntilContextTimeout(ctx, volumePoll, volumeTimeout, true, func(ctx context.Context) (bool, error) {
		files, err := v.content(ctx, volume.VolumeSource)
		if ctx.Err() == nil { // or else the answer before is the reason
			content, last = files, err
		}
		return err == nil, client.IgnoreNotFound(err)
	})
	if apierrors.IsNotFound(last) && ctx.Err() == nil {
		return fmt.Errorf("%w after %s: the manifests have to have it, or what makes it, such as a Certificate", last, volumeTimeout)
	}
	if err != nil {
		return errors.Join(last, err)
	}
	if v.folders[volume.Name] == nil { // it may be mounted twice
		v.folders[volume.Name] = &contentFolder{path: folder}
	}
	return v.folders[volume.Name].write(content)
}

// content returns the files of a volume, by path.
func (v *podVolumes) content(ctx context.Context, s corev1.VolumeSource) (map[string]string, error) {
	switch {
	case s.ConfigMap != nil:
		content, err := v.configMap(ctx, s.ConfigMap.Name)
		return selected(content, s.ConfigMap.Items, s.ConfigMap.Optional, err)
	case s.Secret != nil:
		content, err := secretContent(ctx, v.client, v.pod.Namespace, s.Secret.SecretName)
		return selected(content, s.Secret.Items, s.Secret.Optional, err)
	case s.DownwardAPI != nil:
		return v.downward(s.DownwardAPI.Items)
	case s.Projected != nil:
		all := map[string]string{}
		for _, source := range s.Projected.Sources {
			content, err := v.projected(ctx, source)
			if err != nil {
				return nil, err
			}
			maps.Copy(all, content)
		}
		return all, nil
	}
	return nil, errors.New("it is none of configMap, secret, projected, downwardAPI and emptyDir; with `isolated: false` in the subject " +
		"replicas have no volumes")
}

func (v *podVolumes) projected(ctx context.Context, s corev1.VolumeProjection) (map[string]string, error) {
	switch {
	case s.ConfigMap != nil:
		content, err := v.configMap(ctx, s.ConfigMap.Name)
		return selected(content, s.ConfigMap.Items, s.ConfigMap.Optional, err)
	case s.Secret != nil:
		content, err := secretContent(ctx, v.client, v.pod.Namespace, s.Secret.Name)
		return selected(content, s.Secret.Items, s.Secret.Optional, err)
	case s.DownwardAPI != nil:
		return v.downward(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		token, err := v.token(ctx, s.ServiceAccountToken.Audience)
		return map[string]string{s.ServiceAccountToken.Path: token}, err
	}
	return nil, errors.New("a projected source is none of configMap, secret, downwardAPI and serviceAccountToken")
}

// configMap returns the content of a ConfigMap. The one with the API server's certificate has that
// of the address at which the replica reaches it.
func (v *podVolumes) configMap(ctx context.Context, name string) (map[string]string, error) {
	if name == "kube-root-ca.crt" {
		return map[string]string{"ca.crt": v.authority}, nil
	}
	return configMapContent(ctx, v.client, v.pod.Namespace, name)
}

func (v *podVolumes) downward(items []corev1.DownwardAPIVolumeFile) (map[string]string, error) {
	variables := containerVariables{template: v.template, container: v.container(), namespace: v.pod.Namespace}
	content := map[string]string{}
	for _, item := range items {
		var err error
		if item.FieldRef != nil {
			content[item.Path], err = variables.podField(item.FieldRef.FieldPath, v.pod, v.uid)
		} else {
			content[item.Path], err = variables.resourceField(item.ResourceFieldRef)
		}
		if err != nil {
			return nil, fmt.Errorf("providing the file %s: %w", item.Path, err)
		}
	}
	return content, nil
}

// selected returns the keys of items at their paths, or all keys if there are no items.
func selected(content map[string]string, items []corev1.KeyToPath, optional *bool,
	err error) (map[string]string, error) {
	if err = unlessAbsent(optional, err); err != nil || len(items) == 0 {
		return content, err
	}
	chosen := map[string]string{}
	for _, item := range items {
		value, found := content[item.Key]
		if !found && !ptr.Deref(optional, false) {
			return nil, fmt.Errorf("there is no key %s", item.Key)
		}
		if found {
			chosen[item.Path] = value
		}
	}
	return chosen, nil
}

// update keeps the files as the objects are, until ctx ends.
func (v *podVolumes) update(ctx context.Context) {
	tick := time.NewTicker(volumeUpdate)
	defer tick.Stop()
	for len(v.folders) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			v.updateOnce(ctx)
		}
	}
}

func (v *podVolumes) updateOnce(ctx context.Context) {
	for _, volume := range v.template.Spec.Volumes {
		folder := v.folders[volume.Name]
		if folder == nil || (volume.Secret == nil && volume.ConfigMap == nil && volume.Projected == nil) {
			continue
		}
		// Like a kubelet, it leaves the files as they are while an object cannot be read.
		if content, err := v.content(ctx, volume.VolumeSource); err == nil {
			_ = folder.write(content) // the next update repeats it
		}
	}
}

// dataLink is the link through which all files of a volume lead, so that they change at once. The
// names are those of a kubelet: programs watch them.
const dataLink = "..data"

// contentFolder is a folder with the files of a volume. Nothing else writes there.
type contentFolder struct {
	path    string
	content map[string]string // as it was written
}

// write writes the files, if they are not as they should be.
func (f *contentFolder) write(content map[string]string) error {
	folder := f.path
	before, _ := os.Readlink(filepath.Join(folder, dataLink)) // "" at first
	if before != "" && maps.Equal(f.content, content) {
		return nil
	}
	data, err := os.MkdirTemp(folder, "..data-")
	if err != nil {
		return err
	}
	for path, text := range content {
		file := filepath.Join(data, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	next := filepath.Join(folder, dataLink+"-next")
	if err := os.Symlink(filepath.Base(data), next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(folder, dataLink)); err != nil {
		return err
	}
	if err := linkFiles(folder, content); err != nil {
		return err
	}
	f.content = content
	if before == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(folder, before))
}

// linkFiles makes a link for the first element of each path, and removes the others.
func linkFiles(folder string, content map[string]string) error {
	wanted := map[string]bool{}
	for path := range content {
		first, _, _ := strings.Cut(path, "/")
		wanted[first] = true
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); wanted[name] {
			delete(wanted, name)
		} else if !strings.HasPrefix(name, dataLink) {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				return err
			}
		}
	}
	for name := range wanted {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}
