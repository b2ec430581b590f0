// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"leasehold.dev/api/v1beta1"
)

// The prefixes of the children's names.
const (
	contentPrefix = "markdowns-"
	viewerPrefix  = "viewer-"
)

// The contract with a viewer image; see MarkdownViewSpec.ViewerImage.
const (
	contentPath = "/book/src"
	scratchPath = "/tmp"
	viewerPort  = 3000
	portName    = "http"
	// viewerUID is the user and group ID of an image that the view names, whatever the image sets.
	viewerUID = 65532
	// preStopSeconds is how long a viewer continues to serve after its deletion began. In this time
	// the nodes remove it from their routes. It counts against the Pod's termination grace period
	// of 30 s.
	preStopSeconds = 5
)

// The recommended labels of Kubernetes.
const (
	labelName     = "app.kubernetes.io/name"
	labelInstance = "app.kubernetes.io/instance"
	labelPartOf   = "app.kubernetes.io/part-of"
)

// children are the desired children of a view.
type children struct {
	configMap  *corev1ac.ConfigMapApplyConfiguration
	deployment *appsv1ac.DeploymentApplyConfiguration
	service    *corev1ac.ServiceApplyConfiguration
	// hash is the hash of the content, and image the image of the viewers.
	hash, image string
}

// render returns the desired children of a view, whose content has this hash. It is pure. It does
// not parse the content: only the viewer does, in a Pod without any rights.
func render(v *v1beta1.MarkdownView, hash, defaultImage string) children {
	// The default is never written into the spec, so a new default reaches all views that name none.
	c := children{hash: hash, image: cmp.Or(v.Spec.ViewerImage, defaultImage)}
	files := make(map[string]string, len(v.Spec.Markdowns))
	for name, text := range v.Spec.Markdowns {
		files[name] = string(text)
	}
	owner := metav1ac.OwnerReference().
		WithAPIVersion(viewKind.GroupVersion().String()).WithKind(viewKind.Kind).WithName(v.Name).WithUID(v.UID).
		WithController(true).WithBlockOwnerDeletion(true)
	c.configMap = corev1ac.ConfigMap(contentPrefix+v.Name, v.Namespace).
		WithLabels(labelsFor(v)).WithOwnerReferences(owner).WithData(files).
		// The status may be older than the ConfigMap. Files that were taken back in between differ by this only.
		WithAnnotations(map[string]string{v1beta1.AnnotationContentHash: hash})
	c.deployment = appsv1ac.Deployment(viewerPrefix+v.Name, v.Namespace).
		WithLabels(labelsFor(v)).WithOwnerReferences(owner).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(desiredReplicas(v)).
			WithRevisionHistoryLimit(2).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorFor(v))).
			// A new Pod is ready before an old one is stopped, so the page is always served.
			WithStrategy(appsv1ac.DeploymentStrategy().WithType("RollingUpdate").WithRollingUpdate(
				appsv1ac.RollingUpdateDeployment().WithMaxUnavailable(intstr.FromInt32(0)).WithMaxSurge(intstr.FromInt32(1)))).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(labelsFor(v)).
				WithAnnotations(map[string]string{v1beta1.AnnotationContentHash: c.hash}).
				WithSpec(podSpec(v, c.image))))
	c.service = corev1ac.Service(viewerPrefix+v.Name, v.Namespace).
		WithLabels(labelsFor(v)).WithOwnerReferences(owner).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(selectorFor(v)).
			WithPorts(corev1ac.ServicePort().WithName(portName).WithProtocol(corev1.ProtocolTCP).
				WithPort(80).WithTargetPort(intstr.FromString(portName))))
	return c
}

// podSpec returns a Pod spec that satisfies the Pod Security Standard `restricted`. It goes
// further: no token, no environment, and no writable path except scratch.
func podSpec(v *v1beta1.MarkdownView, image string) *corev1ac.PodSpecApplyConfiguration {
	security := corev1ac.PodSecurityContext().WithRunAsNonRoot(true).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	// The default image has a user that is not root. Clusters such as OpenShift choose another one,
	// and refuse Pods that name theirs.
	if v.Spec.ViewerImage != "" {
		security.WithRunAsUser(viewerUID).WithRunAsGroup(viewerUID)
	}
	return corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithSecurityContext(security).
		WithNodeSelector(map[string]string{corev1.LabelOSStable: "linux"}). // for which the images are
		// ScheduleAnyway, so that a cluster of one node can run all viewers.
		WithTopologySpreadConstraints(corev1ac.TopologySpreadConstraint().
			WithMaxSkew(1).WithTopologyKey("kubernetes.io/hostname").WithWhenUnsatisfiable(corev1.ScheduleAnyway).
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(selectorFor(v)))).
		WithContainers(container(v, image)).
		WithVolumes(
			corev1ac.Volume().WithName("content").WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(contentPrefix+v.Name)),
			corev1ac.Volume().WithName("scratch").
				WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse("64Mi"))))
}

func container(v *v1beta1.MarkdownView, image string) *corev1ac.ContainerApplyConfiguration {
	// The path is not /healthz, which a user's image may not have; every viewer has a first page.
	// That page may take long to render. The liveness probe is lenient, because a restart does not
	// render it faster.
	get := func() *corev1ac.HTTPGetActionApplyConfiguration {
		return corev1ac.HTTPGetAction().WithPath("/").WithPort(intstr.FromString(portName))
	}
	c := corev1ac.Container().
		WithName("viewer").
		WithImage(image).
		WithPorts(corev1ac.ContainerPort().WithName(portName).WithContainerPort(viewerPort).WithProtocol(corev1.ProtocolTCP)).
		WithReadinessProbe(corev1ac.Probe().WithHTTPGet(get()).WithPeriodSeconds(5).WithTimeoutSeconds(3)).
		WithLivenessProbe(corev1ac.Probe().WithHTTPGet(get()).WithInitialDelaySeconds(10).
			WithPeriodSeconds(20).WithTimeoutSeconds(10).WithFailureThreshold(6)).
		WithLifecycle(corev1ac.Lifecycle().WithPreStop(
			corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(preStopSeconds)))).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}).
			// An idle viewer uses about 12 MiB, and less than 100 MiB while 128 clients open a page of 900 KiB.
			WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")})).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName("content").WithMountPath(contentPath).WithReadOnly(true),
			corev1ac.VolumeMount().WithName("scratch").WithMountPath(scratchPath))
	for _, arg := range v.Spec.ViewerArgs {
		c.WithArgs(string(arg))
	}
	return c
}

// selectorFor returns labels that only the Pods of this view have. They must never change, because
// a Deployment's selector is immutable.
func selectorFor(v *v1beta1.MarkdownView) map[string]string {
	return map[string]string{labelName: "markdownview-viewer", labelInstance: v.Name}
}

// labelsFor returns the labels of the children and the Pods. The manager's cache holds only objects
// with LabelManagedBy; see CacheByObject.
func labelsFor(v *v1beta1.MarkdownView) map[string]string {
	all := selectorFor(v)
	all[labelPartOf] = "leasehold"
	all[v1beta1.LabelManagedBy] = v1beta1.ManagedByValue
	return all
}

// digest returns the hash of a text. Its first character is part of stored hashes of contents.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "\u007F" + hex.EncodeToString(sum[:])
}

// contentHash returns a hash that differs for other files, names or contents. It takes the digests of
// the texts, as the cache has them. A line break ends each name and digest; neither contains one.
func contentHash(digests map[string]v1beta1.MarkdownText) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		fmt.Fprintf(h, "%s\n%s\n", name, digests[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}
