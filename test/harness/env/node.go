// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/internal/process"
)

// WorkloadControllers are DefaultControllers and the controllers that create the Pods of
// Deployments, StatefulSets, DaemonSets and Jobs. Without
// persistentvolumeclaim-protection-controller, no PersistentVolumeClaim would ever be deleted.
var WorkloadControllers = append([]string{
	"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
	"job-controller", "cronjob-controller", "persistentvolumeclaim-protection-controller",
}, DefaultControllers...)

// readyPoll is the period of readiness probes of a program that starts.
const readyPoll = 50 * time.Millisecond

// Program is a program that runs in place of an image.
type Program struct {
	Binary string
	// Args returns the arguments. port is the port of 127.0.0.1 to listen on. volumes contains the
	// folders of the volumes, by the paths at which the Pod mounts them.
	Args func(port int, volumes map[string]string) []string
}

// NodeOptions configure a Node.
type NodeOptions struct {
	// Images contains programs by the names of the images that they stand in for. The Node ignores
	// Pods with other images, unless StandIn is set.
	Images map[string]Program
	// StandIn makes Pods with all other images Ready after a moment, although they run nothing.
	// Pods of Jobs succeed, unless Jobs contains another result for the image.
	// PersistentVolumeClaims become Bound.
	StandIn bool
	Jobs    map[string]JobEnd
	// Serving is called when a Pod's program answers, with its URL. It may be nil.
	Serving func(pod types.NamespacedName, url string)
	// Failed is called when a Pod could not run or its program exited. Nil: only the status of the
	// Pod shows it.
	Failed func(pod types.NamespacedName, err error)
}

// JobEnd is the result of a Pod of a Job that runs nothing.
type JobEnd string

const (
	// JobFails means that the Pod fails with the exit code 1.
	JobFails JobEnd = "fails"
	// JobRuns means that the Pod never finishes.
	JobRuns JobEnd = "runs"
)

// Node stands in for a scheduler and a kubelet, for Pods with one container. It runs the
// container's program as a process of this machine, performs its HTTP readiness probe, and reports
// the result in the status of the Pod, so that the controllers of Kubernetes see the same as in a
// cluster. The programs are not isolated, so use only programs that you trust.
//
// A program that exits makes its Pod Failed. A ReplicaSet then creates another Pod.
type Node struct {
	plane   *ControlPlane
	options NodeOptions

	end     context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]context.CancelFunc
	// changing counts the Pods that run nothing and are about to change; the last change was at changed.
	changing int
	changed  time.Time
}

// StartNode starts a Node, which runs until it is stopped or ctx is done. The control plane needs
// WorkloadControllers to create the Pods of Deployments.
func (c *ControlPlane) StartNode(ctx context.Context, o NodeOptions) (*Node, error) {
	n := &Node{plane: c, options: o, pods: map[types.UID]context.CancelFunc{}}
	objects, err := cache.New(c.Config(), cache.Options{})
	if err != nil {
		return nil, fmt.Errorf("starting a node: %w", err)
	}
	ctx, n.end = context.WithCancel(ctx)
	err = watchObjects(ctx, objects, &corev1.Pod{}, n.see, n.gone)
	if err == nil && o.StandIn {
		err = errors.Join(n.register(ctx),
			watchObjects(ctx, objects, &corev1.PersistentVolumeClaim{}, n.seeClaim, func(any) {}))
	}
	if err != nil {
		n.end()
		return nil, fmt.Errorf("starting a node: %w", err)
	}
	n.running.Go(func() { _ = objects.Start(ctx) }) // it fails only where the control plane ends first
	return n, nil
}

// watchObjects calls see for each version of each object of a kind, and gone for each deletion.
func watchObjects(ctx context.Context, objects cache.Cache, kind client.Object, see func(context.Context, any),
	gone func(any)) error {
	informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { see(ctx, o) },
		UpdateFunc: func(_, o any) { see(ctx, o) },
		DeleteFunc: gone,
	})
	return err
}

// Stop kills the programs and waits until they have exited. It does not change their Pods.
func (n *Node) Stop() {
	n.end()
	n.running.Wait()
}

// see starts the program of a Pod, or ends it if the Pod is being deleted.
func (n *Node) see(ctx context.Context, o any) {
	pod, ok := o.(*corev1.Pod)
	if !ok || len(pod.Spec.Containers) == 0 {
		return
	}
	program, known := n.options.Images[pod.Spec.Containers[0].Image]
	// A Pod with a gate is a replica's.
	standsIn := n.options.StandIn && !known && len(pod.Spec.SchedulingGates) == 0
	if pod.DeletionTimestamp != nil {
		n.gone(pod)
		if standsIn {
			n.deleteStandIn(ctx, pod)
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if _, begun := n.pods[pod.UID]; begun || ended || !known && !standsIn {
		return
	}
	life, end := context.WithCancel(ctx)
	n.pods[pod.UID] = end
	if standsIn {
		n.changing++
	}
	n.running.Go(func() {
		run := n.standIn
		if known {
			run = func(ctx context.Context, pod *corev1.Pod) error { return n.run(ctx, pod, program) }
		}
		if err := run(life, pod.DeepCopy()); err != nil && life.Err() == nil && n.options.Failed != nil {
			n.options.Failed(client.ObjectKeyFromObject(pod), err)
		}
	})
}

func (n *Node) gone(o any) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	if pod, ok := o.(*corev1.Pod); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		if end, known := n.pods[pod.UID]; known {
			end()
			delete(n.pods, pod.UID)
		}
	}
}

// run is the life of one Pod with a program.
func (n *Node) run(ctx context.Context, pod *corev1.Pod, program Program) error {
	err := n.serve(ctx, pod, program)
	if ctx.Err() != nil {
		return err // it was to end
	}
	pod.Status.Phase, pod.Status.Message = corev1.PodFailed, err.Error()
	return errors.Join(err, n.report(ctx, pod, corev1.ConditionFalse))
}

// serve runs the program until it or ctx ends, and reports its readiness.
func (n *Node) serve(ctx context.Context, pod *corev1.Pod, program Program) error {
	dir := filepath.Join(n.plane.dir, "pods", string(pod.UID))
	volumes, err := n.mount(ctx, pod, dir)
	if err != nil {
		return err
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		return err
	}
	p, err := n.plane.watchdog.Start(process.Spec{
		Name: pod.Name, Program: program.Binary, Args: program.Args(ports[0], volumes), Log: filepath.Join(dir, "log"),
	})
	if err != nil {
		return err
	}
	defer p.Kill()
	url := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	ready := wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		if !p.Running() {
			return false, errors.New("it has exited")
		}
		return isReady(ctx, pod, url), nil
	})
	if ready == nil {
		pod.Status.Phase = corev1.PodRunning
		if err := n.report(ctx, pod, corev1.ConditionTrue); err != nil {
			return err
		}
		if n.options.Serving != nil {
			n.options.Serving(client.ObjectKeyFromObject(pod), url)
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.Ended:
		return fmt.Errorf("running %s: it has exited (%v):\n%s", program.Binary, p.State, process.Tail(p.Log, 5))
	}
}

// isReady performs the readiness probe. Without a probe, a running program is ready.
func isReady(ctx context.Context, pod *corev1.Pod, url string) bool {
	spec := pod.Spec.Containers[0].ReadinessProbe
	if !isHTTP(spec) {
		return true
	}
	code, _, err := probe(ctx, url+spec.HTTPGet.Path)
	return err == nil && code >= 200 && code < 400
}

// mount writes the volumes of the Pod below dir and returns their folders by the container's mount
// paths. A program gets no token.
func (n *Node) mount(ctx context.Context, pod *corev1.Pod, dir string) (map[string]string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the pod's folder: %w", err)
	}
	pod = pod.DeepCopy()
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts,
		func(m corev1.VolumeMount) bool { return m.MountPath == accountFolder })
	v := &podVolumes{template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		pod: client.ObjectKeyFromObject(pod), uid: pod.UID, client: n.plane.client}
	mounts, err := v.mounts(ctx, dir)
	folders := map[string]string{}
	for _, m := range mounts {
		folders[m.Target] = m.Source
	}
	return folders, err
}

func (n *Node) report(ctx context.Context, pod *corev1.Pod, ready corev1.ConditionStatus) error {
	now := metav1.Now()
	pod.Status.PodIP, pod.Status.PodIPs = "127.0.0.1", []corev1.PodIP{{IP: "127.0.0.1"}}
	pod.Status.StartTime = &now
	pod.Status.Conditions = podConditions(ready, now)
	before := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	if err := n.plane.client.Status().Patch(ctx, pod.DeepCopy(), client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing the status of pod %s: %w", pod.Name, err)
	}
	return nil
}
