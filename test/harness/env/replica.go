// SPDX-License-Identifier: Apache-2.0

package env

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/internal/process"
	"leasehold.dev/test/harness/sandbox"
)

// stopGrace is the time that a replica has after SIGTERM, the default of a Pod.
const stopGrace = 30 * time.Second

// prober makes the requests of probes. It keeps no connection, so that nothing is left to close. Like a
// kubelet it verifies no certificate.
var prober = &http.Client{Timeout: time.Second, Transport: &http.Transport{
	DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
}}

// ReplicaPorts are the ports of a replica. Without isolation, they are ports of 127.0.0.1 that were
// free when the replica was created.
type ReplicaPorts struct {
	Probe, Metrics, Webhook int
}

// ReplicaOptions describe one Pod of a Deployment: its identity and its program.
type ReplicaOptions struct {
	// Name and Namespace are those of the Pod. The namespace and the ServiceAccount must exist.
	Name, Namespace string
	// Template is the template of the Pod. Its first container is the one whose program runs. The
	// replica acts as the ServiceAccount of the template, with the access that RBAC rules grant to
	// it. Without an HTTP probe, the replica is ready while its process runs.
	Template corev1.PodTemplateSpec

	// Binary is the program to run.
	Binary string
	// WorkingDir is the program's working directory. Empty: that of this process, or / for an
	// isolated replica.
	WorkingDir string
	// Args returns the program's arguments, in which $(NAME) refers to a variable of the container
	// or of Env. Nil: none.
	Args func(ReplicaPorts) []string
	// Env replaces variables of the container. Without isolation, the program also has PATH,
	// POD_NAME, POD_NAMESPACE, POD_UID, KUBECONFIG, and a HOME and a TMPDIR in the control plane's
	// folder.
	Env []string

	// Connect changes how the replica reaches the API server, for example
	// through a proxy that injects faults, before its kubeconfig is written.
	Connect func(*rest.Config)
	// Isolated runs the program in its own namespaces, in which all ports are free. The program
	// sees the ServiceAccount's files, the volumes of the Pod, an empty /tmp and the environment of
	// a container. Args gets the ports that the program listens on. Replica.Ports returns the ports
	// of this machine that lead to them.
	Isolated bool
}

func (o *ReplicaOptions) container() corev1.Container { return o.Template.Spec.Containers[0] }

func (o *ReplicaOptions) variables() containerVariables {
	return containerVariables{template: o.Template, container: o.container(), namespace: o.Namespace, given: o.Env}
}

// Identity is the identity of a replica at the API server.
type Identity struct {
	Pod      types.NamespacedName
	PodUID   types.UID
	Username string // of the ServiceAccount, as in system:serviceaccount:ns:name
}

// restartable hides the field in Replica.
type restartable = process.Restartable

// ErrNotEnded means that a program did not exit in time after SIGTERM, which is an error of the
// program and not of the harness.
var ErrNotEnded = process.ErrNotEnded

// Replica is one process of an operator. Its methods may be called concurrently.
type Replica struct {
	restartable

	mu       sync.Mutex // of a restart and its report in the Pod's status
	spec     process.Spec
	watchdog *process.Watchdog
	options  ReplicaOptions
	identity Identity
	config   *rest.Config
	ports    ReplicaPorts
	status   *podStatus

	sandbox    *sandbox.Sandbox // nil: it is not isolated
	endUpdates context.CancelFunc
	updates    sync.WaitGroup
}

// StartReplica creates a Pod object that never runs and requests a ServiceAccount token bound to
// it, so the API server can identify the Pod behind each request. It starts the program with a
// kubeconfig that contains the token. It does not wait until the replica is ready. The token is
// valid for a day, and only while the Pod object exists.
func StartReplica(ctx context.Context, cp *ControlPlane, o ReplicaOptions) (*Replica, error) {
	r, err := newReplica(ctx, cp, o)
	if err != nil {
		return nil, fmt.Errorf("starting replica %s: %w", o.Name, err)
	}
	if err := r.Restart(); err != nil {
		return nil, err
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.replicas = append(cp.replicas, r)
	return r, nil
}

func newReplica(ctx context.Context, cp *ControlPlane, o ReplicaOptions) (*Replica, error) {
	uid, token, err := cp.bindToken(ctx, o)
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(cp.config)
	config.BearerToken = token
	if o.Connect != nil {
		o.Connect(config)
	}
	r := &Replica{
		options: o,
		identity: Identity{
			Pod:      types.NamespacedName{Namespace: o.Namespace, Name: o.Name},
			PodUID:   uid,
			Username: serviceaccount.MakeUsername(o.Namespace, o.Template.Spec.ServiceAccountName),
		},
		config:   config,
		watchdog: cp.watchdog,
		spec:     process.Spec{Log: cp.log(o.Name)},
	}
	if err := r.prepare(ctx, cp, token); err != nil {
		return nil, err
	}
	// The status is written for as long as the process runs, which outlives the call.
	r.status = newPodStatus(context.WithoutCancel(ctx), cp.client, r.identity.Pod, uid, o.container().Name)
	return r, nil
}

// prepare sets the ports and the program, and creates what surrounds it.
func (r *Replica) prepare(ctx context.Context, cp *ControlPlane, token string) error {
	var env []string
	var err error
	ports := ReplicaPorts{}
	if r.options.Isolated {
		ports = portsOf(r.options.container())
		if env, err = r.isolate(ctx, cp, token); err != nil {
			err = fmt.Errorf("isolating the replica: %w", err)
		}
	} else {
		kubeconfig := filepath.Join(cp.dir, fmt.Sprintf("%s.%s.kubeconfig", r.options.Namespace, r.options.Name))
		o := r.options
		// Files of a killed replica are removed with the control plane's folder.
		env = []string{"KUBECONFIG=" + kubeconfig, "TMPDIR=" + cp.dir, "POD_NAME=" + o.Name, "POD_NAMESPACE=" + o.Namespace,
			"POD_UID=" + string(r.identity.PodUID)}
		if err := writeKubeconfig(kubeconfig, r.config); err != nil {
			return err
		}
		var free []int
		if free, err = process.FreePorts(3); err == nil {
			ports = ReplicaPorts{Probe: free[0], Metrics: free[1], Webhook: free[2]}
			r.ports = ports
		}
	}
	if err != nil {
		return err
	}
	if r.readiness() == nil {
		r.ports.Probe = 0
	}
	r.spec, err = r.program(ctx, cp.client, env, ports)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	return nil
}

// program returns the program to start, with its arguments and its environment.
func (r *Replica) program(ctx context.Context, c client.Reader, env []string,
	ports ReplicaPorts) (process.Spec, error) {
	o := r.options
	variables, err := o.variables().values(ctx, c, r.identity.Pod, r.identity.PodUID)
	if err != nil {
		return process.Spec{}, err
	}
	env = append(env, variables...)
	var args []string
	if o.Args != nil {
		values := valuesOf(env)
		for _, arg := range o.Args(ports) {
			args = append(args, expandReferences(arg, values))
		}
	}
	return process.Spec{Name: o.Name, Program: o.Binary, Args: args, Log: r.spec.Log, Dir: o.WorkingDir, Env: env,
		Sandbox: r.sandbox}, nil
}

// Restart starts the program again after it has exited, as a kubelet restarts a container, with the
// same Pod, token and ports. It returns an error if the program still runs.
func (r *Replica) Restart() error { return r.RestartWith() }

// RestartWith is like Restart, but appends args to the arguments of the replica. The next Restart
// does not use them.
func (r *Replica) RestartWith(args ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	program := r.spec
	program.Args = slices.Concat(program.Args, args)
	started, err := process.Begin(&r.restartable, r.watchdog, program)
	if err != nil {
		return fmt.Errorf("starting replica %s: %w", r.options.Name, err)
	}
	r.status.follow(started)
	return nil
}

// Name returns the Pod's name.
func (r *Replica) Name() string { return r.options.Name }

// Identity returns the identity of the replica at the API server.
func (r *Replica) Identity() Identity { return r.identity }

// Config returns a copy of the replica's client configuration, with its identity at the
// API server.
func (r *Replica) Config() *rest.Config { return rest.CopyConfig(r.config) }

// Ports returns the ports of this machine at which the replica is reached. Without isolation, these
// are the ports that ReplicaOptions.Args received. The port of the probe is zero if there is no
// HTTP probe.
func (r *Replica) Ports() ReplicaPorts { return r.ports }

// LogPath returns the path of the file that contains the standard output and the standard error of
// the program.
func (r *Replica) LogPath() string { return r.spec.Log }

// LogTail returns the last lines of the file at LogPath.
func (r *Replica) LogTail(lines int) string { return process.Tail(r.spec.Log, lines) }

// Wait waits until the process has exited and returns its exit code, or -1 if a signal ended it. It
// returns the error of ctx, wrapped, if ctx is done first.
func (r *Replica) Wait(ctx context.Context) (int, error) {
	running := process.Current(&r.restartable)
	select {
	case <-running.Ended:
		return running.State.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for replica %s: %w", r.options.Name, ctx.Err())
	}
}

// Kill sends SIGKILL and waits until the process has exited.
func (r *Replica) Kill() { process.Current(&r.restartable).Kill() }

// Stop sends SIGTERM, waits until the process has exited and returns its exit code. If the process
// still runs after 30 s, or when ctx is done, Stop kills it and returns ErrNotEnded or the error of
// ctx, wrapped.
func (r *Replica) Stop(ctx context.Context) (int, error) {
	return process.Current(&r.restartable).Stop(ctx, stopGrace)
}

func (r *Replica) readiness() *corev1.HTTPGetAction { return readinessOf(r.options.container()) }

// ReadyURL returns the URL of the replica's HTTP probe, as reached from this machine, or "" if
// there is no probe.
func (r *Replica) ReadyURL() string {
	probe := r.readiness()
	if probe == nil {
		return ""
	}
	return fmt.Sprintf("%s://127.0.0.1:%d/%s", strings.ToLower(cmp.Or(string(probe.Scheme), "http")), r.ports.Probe,
		strings.TrimPrefix(probe.Path, "/"))
}

// Ready performs the readiness probe. It returns nil for the status code 200, and otherwise an
// error that contains the answer of the replica or the failure of the request. Without an HTTP
// probe, it returns nil while the process runs.
func (r *Replica) Ready(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("asking replica %s whether it is ready: %w", r.options.Name, err)
		}
	}()
	if !r.Running() {
		return errors.New("it has exited")
	}
	if r.readiness() == nil {
		return nil
	}
	code, said, err := probe(ctx, r.ReadyURL())
	if err == nil && code != http.StatusOK {
		err = errors.New(said)
	}
	return err
}

// probe makes the request of a probe, and returns the code of the answer, and the status with the body.
func probe(ctx context.Context, url string) (code int, said string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := prober.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	return response.StatusCode, response.Status + ": " + string(body), err
}

// address is where a port of the program is reached. Without isolation the program has a port of
// its own for its webhooks, which stands in for every port.
func (r *Replica) address(port int) (string, error) {
	if r.sandbox == nil {
		return fmt.Sprintf("127.0.0.1:%d", r.ports.Webhook), nil
	}
	return r.sandbox.Publish(port)
}
