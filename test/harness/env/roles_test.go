// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"leasehold.dev/test/harness/internal/process"
)

// The programs that the test binary can play.
const (
	roleReplica = "replica"  // a small operator: probes, one write, a clean end on SIGTERM
	roleHolds   = "holds"    // holds a control plane, and calls Stop on SIGTERM
	rolePage    = "page"     // serves the files of a folder
	wroteMarker = "by-a-pod" // the ConfigMap the small operator writes
)

func play(role string) {
	var err error
	switch role {
	case roleReplica:
		err = operate(os.Args[1])
	case rolePage:
		err = http.ListenAndServe(os.Args[1], http.FileServer(http.Dir(os.Args[2])))
	case roleHolds:
		err = hold()
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// operate answers /readyz once it has written a ConfigMap with its own token.
func operate(probe string) error {
	//nolint:forbidigo // a program of its own, not a test
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := config.GetConfig()
	if err != nil {
		return err
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return err
	}
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: os.Getenv("POD_NAMESPACE"), Name: os.Getenv("POD_NAME") + "-" + wroteMarker,
	}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, written)); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "wrote", written.Name)
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: "127.0.0.1:" + probe, Handler: mux}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

// held is a holder's list of its children and files.
type held struct {
	Dir  string
	Pids []int
}

// hold starts a control plane with a replica, and prints its folder and their pids.
func hold() error {
	//nolint:forbidigo // a program of its own, not a test
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cp, err := Start(ctx, Options{})
	if err != nil {
		return err
	}
	replica, err := startSmallOperator(ctx, cp, "default", "held")
	if err != nil {
		return err
	}
	noted, err := notedBy(cp.watchdog)
	if err != nil {
		return err
	}
	// envtest ran etcd and kube-apiserver to read their flags, which left notes of ended processes.
	// The newest two may not have written theirs yet.
	pids := slices.DeleteFunc(append(noted, cp.manager.Pid(), replica.Pid()), func(pid int) bool { return !alive(pid) })
	slices.Sort(pids)
	pids = slices.Compact(pids)
	if err := json.NewEncoder(os.Stdout).Encode(held{Dir: cp.Dir(), Pids: pids}); err != nil {
		return err
	}
	<-ctx.Done()
	return cp.Stop()
}

// notedBy returns the noted children of a watchdog that have not been waited for.
func notedBy(w *process.Watchdog) (pids []int, err error) {
	entries, err := os.ReadDir(filepath.Join(w.Dir, "pids"))
	for _, entry := range entries {
		pid, notNumber := strconv.Atoi(entry.Name())
		pids, err = append(pids, pid), errors.Join(err, notNumber)
	}
	return pids, err
}

// get is an HTTP probe.
func get(path string, port intstr.IntOrString) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port}}}
}

// startSmallOperator runs roleReplica as the ServiceAccount name, which it
// makes, with the one right it needs.
func startSmallOperator(ctx context.Context, cp *ControlPlane, namespace, name string,
	change ...func(*ReplicaOptions)) (*Replica, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := cp.client.Create(ctx, account); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"create", "role", name, "--verb=create", "--resource=configmaps"},
		{"create", "rolebinding", name, "--role=" + name, "--serviceaccount=" + namespace + ":" + name},
	} {
		if _, err := cp.Kubectl(ctx, append([]string{"--namespace=" + namespace}, args...)...); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: name,
		Containers: []corev1.Container{{Name: "operator", ReadinessProbe: get("/readyz", intstr.FromInt32(8081))}}}}
	o := ReplicaOptions{
		Name: name + "-0", Namespace: namespace, Template: template,
		Binary: self, Env: []string{roleVariable + "=" + roleReplica},
		Args: func(p ReplicaPorts) []string { return []string{fmt.Sprint(p.Probe)} },
	}
	for _, f := range change {
		f(&o)
	}
	return StartReplica(ctx, cp, o)
}
