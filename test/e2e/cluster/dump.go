// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Dump writes the state of the cluster into dir: all objects and events, the audit log, and kind's
// logs of the nodes. It continues after an error, and returns all errors.
func (c *Cluster) Dump(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of the dump: %w", err)
	}
	_, auditErr := c.AuditLog(ctx)
	errs := []error{auditErr, c.dumpObjects(ctx, filepath.Join(dir, "objects.yaml"))}
	if err := c.provider.ExportLogs(ctx, filepath.Join(dir, "kind")); err != nil {
		errs = append(errs, fmt.Errorf("exporting kind's logs: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("dumping cluster %s: %w", c.options.Name, err)
	}
	return nil
}

// Objects returns every object of all kinds and namespaces. Secrets have no data. If it returns an
// error, it also returns the objects that it could list.
func (c *Cluster) Objects(ctx context.Context) ([]unstructured.Unstructured, error) {
	lists, err := discovery.ServerPreferredResources(c.clients)
	errs := []error{err}
	anything, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("building a client for all kinds: %w", err)
	}
	var objects []unstructured.Unstructured
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the group %s: %w", list.GroupVersion, err))
			continue
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			found, err := anything.Resource(group.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // the kind was removed since the discovery
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("listing %s: %w", r.Name, err))
				continue
			}
			objects = append(objects, found.Items...)
		}
	}
	for i := range objects {
		if objects[i].GetKind() == "Secret" {
			delete(objects[i].Object, "data")
		}
	}
	return objects, errors.Join(errs...)
}

// dumpObjects writes all objects, kind by kind.
func (c *Cluster) dumpObjects(ctx context.Context, path string) error {
	objects, err := c.Objects(ctx)
	errs := []error{err}
	var dump strings.Builder
	for i := range objects {
		text, err := yaml.Marshal(&objects[i])
		errs = append(errs, err)
		fmt.Fprintf(&dump, "---\n%s", text)
	}
	return errors.Join(append(errs, os.WriteFile(path, []byte(dump.String()), 0o644))...)
}
