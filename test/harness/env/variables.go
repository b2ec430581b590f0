// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// podAddress is the address of every Pod and of its node: they are processes of this machine.
	podAddress = "127.0.0.1"
	// nodeName is the name of that node. There is no such Node object.
	nodeName = "harness"
)

// containerVariables computes the environment of a container as a kubelet does.
type containerVariables struct {
	template  corev1.PodTemplateSpec
	container corev1.Container
	namespace string
	// given are variables that the subject defines. They replace those of the container.
	given []string
}

// check returns an error that names every variable that can never be provided. What depends on
// objects of the cluster is left to values.
func (v containerVariables) check(ctx context.Context) error {
	var errs []error
	for _, e := range v.container.Env {
		from := e.ValueFrom
		if v.isGiven(e.Name) || from == nil || from.ConfigMapKeyRef != nil || from.SecretKeyRef != nil {
			continue
		}
		if _, _, err := v.valueFrom(ctx, nil, from, types.NamespacedName{}, ""); err != nil {
			errs = append(errs, variableError(e.Name, err))
		}
	}
	return errors.Join(errs...)
}

// values returns the container's variables in order, as NAME=value, with the given ones last.
func (v containerVariables) values(ctx context.Context, c client.Reader, pod types.NamespacedName,
	uid types.UID) ([]string, error) {
	values := map[string]string{}
	var list []string
	set := func(name, value string) {
		values[name] = value
		list = append(list, name+"="+value)
	}
	for _, source := range v.container.EnvFrom {
		content, err := v.envFrom(ctx, c, source)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(content)) {
			set(source.Prefix+key, content[key])
		}
	}
	for _, e := range v.container.Env {
		if v.isGiven(e.Name) {
			continue
		}
		value, found := expandReferences(e.Value, values), true
		if e.ValueFrom != nil {
			var err error
			if value, found, err = v.valueFrom(ctx, c, e.ValueFrom, pod, uid); err != nil {
				return nil, variableError(e.Name, err)
			}
		}
		if found {
			set(e.Name, value)
		}
	}
	return slices.Concat(list, v.given), nil
}

func variableError(name string, err error) error {
	return fmt.Errorf("providing the variable %s: %w; write it under env: in the subject", name, err)
}

func (v containerVariables) isGiven(name string) bool {
	return slices.ContainsFunc(v.given, func(g string) bool { return strings.HasPrefix(g, name+"=") })
}

// valueFrom returns false for an optional key that does not exist.
func (v containerVariables) valueFrom(
	ctx context.Context, c client.Reader, from *corev1.EnvVarSource, pod types.NamespacedName, uid types.UID,
) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = v.podField(from.FieldRef.FieldPath, pod, uid)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = v.resourceField(from.ResourceFieldRef)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		content, err := configMapContent(ctx, c, v.namespace, ref.Name)
		return keyOf(content, "ConfigMap "+ref.Name, ref.Key, ref.Optional, err)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		content, err := secretContent(ctx, c, v.namespace, ref.Name)
		return keyOf(content, "Secret "+ref.Name, ref.Key, ref.Optional, err)
	}
	return "", false, errors.New("its source is none of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef")
}

func keyOf(content map[string]string, source, key string, optional *bool, err error) (string, bool, error) {
	if err := unlessAbsent(optional, err); err != nil {
		return "", false, err
	}
	value, found := content[key]
	if !found && !ptr.Deref(optional, false) {
		return "", false, fmt.Errorf("%s has no key %s", source, key)
	}
	return value, found, nil
}

// unlessAbsent returns the error of reading an object, or nil if the object is optional and absent.
func unlessAbsent(optional *bool, err error) error {
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return nil
	}
	return err
}

func (v containerVariables) envFrom(ctx context.Context, c client.Reader,
	source corev1.EnvFromSource) (map[string]string, error) {
	var content map[string]string
	var optional *bool
	var err error
	switch {
	case source.ConfigMapRef != nil:
		optional = source.ConfigMapRef.Optional
		content, err = configMapContent(ctx, c, v.namespace, source.ConfigMapRef.Name)
	case source.SecretRef != nil:
		optional = source.SecretRef.Optional
		content, err = secretContent(ctx, c, v.namespace, source.SecretRef.Name)
	}
	if err = unlessAbsent(optional, err); err != nil {
		return nil, fmt.Errorf("providing the variables of envFrom: %w", err)
	}
	return content, nil
}

func configMapContent(ctx context.Context, c client.Reader, namespace, name string) (map[string]string, error) {
	var m corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &m); err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	content := map[string]string{}
	maps.Copy(content, m.Data)
	for key, value := range m.BinaryData {
		content[key] = string(value)
	}
	return content, nil
}

func secretContent(ctx context.Context, c client.Reader, namespace, name string) (map[string]string, error) {
	var s corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &s); err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	}
	content := map[string]string{}
	for key, value := range s.Data {
		content[key] = string(value)
	}
	return content, nil
}

// keyedField matches metadata.labels['key'] and metadata.annotations['key'].
var keyedField = regexp.MustCompile(`^metadata\.(labels|annotations)\['(.+)'\]$`)

// podField returns what a fieldRef refers to.
func (v containerVariables) podField(path string, pod types.NamespacedName, uid types.UID) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return v.namespace, nil
	case "metadata.uid":
		return string(uid), nil
	case "metadata.labels":
		return formatMap(v.template.Labels), nil
	case "metadata.annotations":
		return formatMap(v.template.Annotations), nil
	case "spec.nodeName":
		return nodeName, nil
	case "spec.serviceAccountName":
		return v.template.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
		return podAddress, nil
	}
	match := keyedField.FindStringSubmatch(path)
	switch {
	case match == nil:
		return "", fmt.Errorf("a replica has no field %s", path)
	case match[1] == "labels":
		return v.template.Labels[match[2]], nil
	default:
		return v.template.Annotations[match[2]], nil
	}
}

// formatMap is the format of labels and annotations in a downwardAPI volume.
func formatMap(m map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, fmt.Sprintf("%s=%q", key, m[key]))
	}
	return strings.Join(lines, "\n")
}

// resourceField returns the value of a resourceFieldRef: the quantity in units of the divisor,
// rounded up. Without a CPU limit it is the machine's.
func (v containerVariables) resourceField(ref *corev1.ResourceFieldSelector) (string, error) {
	container := v.container
	if ref.ContainerName != "" && ref.ContainerName != container.Name {
		i := slices.IndexFunc(v.template.Spec.Containers,
			func(c corev1.Container) bool { return c.Name == ref.ContainerName })
		if i < 0 {
			return "", fmt.Errorf("the Pod has no container %s", ref.ContainerName)
		}
		container = v.template.Spec.Containers[i]
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	limit, isLimited := container.Resources.Limits[corev1.ResourceName(name)]
	var quantity resource.Quantity
	switch kind {
	case "limits":
		quantity = limit
		if !isLimited && name == string(corev1.ResourceCPU) {
			quantity, isLimited = *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI), true
		}
		if !isLimited {
			return "", fmt.Errorf("container %s has no %s", container.Name, ref.Resource)
		}
	case "requests":
		// The API server sets a missing request to the limit. Without both it is 0.
		quantity = limit
		if request, found := container.Resources.Requests[corev1.ResourceName(name)]; found {
			quantity = request
		}
	default:
		return "", fmt.Errorf("a container has no resource %s", ref.Resource)
	}
	return divide(quantity, ref.Divisor, name == string(corev1.ResourceCPU)), nil
}

func divide(quantity, divisor resource.Quantity, isCPU bool) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	value, by := float64(quantity.Value()), float64(divisor.Value())
	if isCPU {
		value, by = float64(quantity.MilliValue()), float64(divisor.MilliValue())
	}
	return strconv.FormatInt(int64(math.Ceil(value/by)), 10)
}

// reference matches $(NAME), and $$, the escape of $.
var reference = regexp.MustCompile(`\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)`)

// expandReferences replaces $(NAME) by the variable's value, as a kubelet does in arguments and
// values. References to unknown variables stay.
func expandReferences(text string, values map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, known := values[found[2:len(found)-1]]; known {
			return value
		}
		return found
	})
}

// valuesOf returns variables by name. Of several with one name the last one counts.
func valuesOf(variables []string) map[string]string {
	values := map[string]string{}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return values
}
