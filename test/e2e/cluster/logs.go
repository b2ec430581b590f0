// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// StreamLogs writes the complete log of each container of the wanted Pods into a file of its own in dir,
// while the container runs, so the file outlives the Pod. stop ends the streams and waits for them.
func (c *Cluster) StreamLogs(ctx context.Context, dir string, wanted func(*corev1.Pod) bool) (stop func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of logs: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &logStreams{cluster: c, dir: dir, wanted: wanted, seen: map[string]bool{}}
	factory := informers.NewSharedInformerFactory(c.clients, 0)
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.follow(ctx, o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { s.follow(ctx, o.(*corev1.Pod)) },
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching Pods for their logs: %w", err)
	}
	factory.Start(ctx.Done())
	return func() {
		cancel()
		factory.Shutdown()
		s.running.Wait()
	}, nil
}

type logStreams struct {
	cluster *Cluster
	dir     string
	wanted  func(*corev1.Pod) bool
	running sync.WaitGroup

	mu   sync.Mutex
	seen map[string]bool // by the container's ID, which a restart changes
}

// follow starts to copy the logs of new containers.
func (s *logStreams) follow(ctx context.Context, pod *corev1.Pod) {
	if !s.wanted(pod) {
		return
	}
	for _, status := range pod.Status.ContainerStatuses {
		// A container that ended at once may never be observed running.
		if status.State.Running == nil && status.State.Terminated == nil || !s.first(status.ContainerID) {
			continue
		}
		file := filepath.Join(s.dir, fmt.Sprintf("%s.%s.%s.%d.log", pod.Namespace, pod.Name, status.Name,
			status.RestartCount))
		s.running.Go(func() {
			if err := s.copy(ctx, pod, status.Name, file); err != nil && ctx.Err() == nil {
				s.cluster.logf("following the log of Pod %s: %v", pod.Name, err)
			}
		})
	}
}

func (s *logStreams) first(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[id] {
		return false
	}
	s.seen[id] = true
	return true
}

// copy returns when the container ends, or with ctx.
func (s *logStreams) copy(ctx context.Context, pod *corev1.Pod, container, path string) (err error) {
	lines, err := s.cluster.clients.CoreV1().Pods(pod.Namespace).
		GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Follow: true, Timestamps: true}).Stream(ctx)
	if err != nil {
		return err
	}
	defer lines.Close()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	_, err = io.Copy(file, lines)
	return err
}
