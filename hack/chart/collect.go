package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	ownCertificates  = `eq .Values.certificates.issuer "own"`
	fromCertManager  = `eq .Values.certificates.issuer "cert-manager"`
	crdsEnabled      = `.Values.crds.enabled`
	fenced           = `ne (include "leasehold.fence" .) "off"`
	severalReplicas  = `gt (int .Values.replicas) 1`
	monitored        = `.Values.serviceMonitor.enabled`
	alerting         = `.Values.alerts.enabled`
	withDashboard    = `.Values.dashboard.enabled`
	isolated         = `.Values.networkPolicy.enabled`
	fenceName        = "leasehold-fence.leasehold.dev"
	operatorName     = "leasehold-controller-manager"
	managerContainer = "manager"
)

// chartObject is an object of the chart.
type chartObject struct {
	condition string // the template condition of the object; empty means always
	tree      map[string]any
}

func (o chartObject) kind() string { return o.tree["kind"].(string) }

func (o chartObject) name() string {
	return o.tree["metadata"].(map[string]any)["name"].(string)
}

// key identifies the object among those of one overlay.
func (o chartObject) key() string {
	namespace, _ := o.tree["metadata"].(map[string]any)["namespace"].(string)
	return strings.Join([]string{o.kind(), namespace, o.name()}, " ")
}

// collect returns the objects of all overlays that the chart offers, each with its condition in the
// chart. render returns the output of kustomize for an overlay.
func collect(render func(overlay string) ([]byte, error)) ([]chartObject, error) {
	overlay := func(name, condition string) ([]chartObject, error) {
		text, err := render(name)
		if err != nil {
			return nil, err
		}
		return decode(text, condition)
	}
	objects, err := overlay("default", "")
	if err != nil {
		return nil, err
	}
	withCertManager, err := overlay("certmanager", "")
	if err != nil {
		return nil, err
	}
	if objects, err = merge(objects, withCertManager, ownCertificates, fromCertManager); err != nil {
		return nil, fmt.Errorf("merging config/certmanager into config/default: %w", err)
	}
	for _, optional := range []struct{ overlay, condition string }{
		{"prometheus", ""}, {"network-policy", isolated}, {"grafana", withDashboard},
	} {
		more, err := overlay(optional.overlay, optional.condition)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

// build returns the output of kustomize for a folder.
func build(ctx context.Context, kustomize, folder string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, kustomize, "build", folder)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w: %s", folder, err, &stderr)
	}
	return out, nil
}

// decode returns the objects of a rendered overlay except its Namespace, because Helm creates the
// namespace of a release.
func decode(text []byte, condition string) ([]chartObject, error) {
	var objects []chartObject
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("separating the objects: %w", err)
		}
		encoded, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		o := chartObject{condition: condition}
		// This decoder distinguishes integers from floating-point numbers.
		if err := utiljson.Unmarshal(encoded, &o.tree); err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		if o.kind() != "Namespace" {
			objects = append(objects, o)
		}
	}
}
