// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/test/e2e/cluster"
)

// Shared by all features. Only TestMain sets them, before the first feature.
var (
	testenv env.Environment
	shared  *suite
)

// suite is the cluster with the operator on it.
type suite struct {
	settings  settings
	cluster   *cluster.Cluster
	client    client.Client // the administrator's, without a cache
	report    *report
	began     time.Time
	testBegan time.Time       // of the current test
	traces    map[string]bool // the tests whose traces were collected

	hasPrevious bool // the features of the upgrade need it

	stopLogs func()
	failed   error // from finish
}

// settings are read from the environment, which `make e2e` sets.
type settings struct {
	NodeImage                   string
	Name, Cluster               string // Name of a new cluster, Cluster of an existing one
	Keep                        bool
	Artifacts                   string
	Kubectl, Kind, Kustomize    string
	Helm                        string
	Image, ViewerImage, S3Image string
	// The image of the prover, which may be missing, and the folder that it was built from.
	ProverImage, ProverDir string
	// The previous release: its images, which may be missing, and the folder of its manifests.
	PreviousImage, PreviousViewerImage, PreviousDir string
}

func readSettings(getenv func(string) string) (settings, error) {
	s := settings{Cluster: getenv("E2E_CLUSTER"), Keep: getenv("E2E_KEEP") == "1"}
	for name, value := range map[string]*string{
		"E2E_NODE_IMAGE": &s.NodeImage, "E2E_NAME": &s.Name, "ARTIFACTS": &s.Artifacts,
		"KUBECTL": &s.Kubectl, "KIND": &s.Kind, "KUSTOMIZE": &s.Kustomize, "HELM": &s.Helm,
		"IMG": &s.Image, "VIEWER_IMG": &s.ViewerImage, "S3_IMG": &s.S3Image,
		"PROVER_IMG": &s.ProverImage, "PROVER_DIR": &s.ProverDir,
		"PREVIOUS_IMG": &s.PreviousImage, "PREVIOUS_VIEWER_IMG": &s.PreviousViewerImage, "PREVIOUS_DIR": &s.PreviousDir,
	} {
		if *value = getenv(name); *value == "" {
			return s, fmt.Errorf("%s is not set: run these tests by `make e2e`", name)
		}
	}
	s.Artifacts = filepath.Join(s.Artifacts, "e2e")
	return s, nil
}

func TestMain(m *testing.M) {
	log.SetLogger(ctrl.Log) // without it the log package prints a warning
	settings, err := readSettings(os.Getenv)
	if err == nil {
		testenv, err = env.NewFromFlags()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		os.Exit(1)
	}
	// The first signal ends the current feature and then runs finish.
	//nolint:forbidigo // there is no test yet whose context could be used
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	shared = &suite{settings: settings, began: time.Now(), report: &report{rows: map[string]string{}},
		traces: map[string]bool{}}
	testenv = testenv.WithContext(ctx).
		Setup(shared.setup).
		BeforeEachTest(shared.beforeTest).
		AfterEachTest(shared.afterTest).
		Finish(shared.finish)
	code := testenv.Run(m)
	stop()
	if shared.failed != nil {
		shared.logf("%v", shared.failed)
		code = max(code, 1)
	}
	os.Exit(code)
}

// setup makes the cluster and deploys the operator as a user does.
func (s *suite) setup(ctx context.Context, cfg *envconf.Config) (context.Context, error) {
	if err := os.RemoveAll(s.settings.Artifacts); err != nil {
		return ctx, fmt.Errorf("clearing the artefacts of the last run: %w", err)
	}
	if err := os.MkdirAll(s.settings.Artifacts, 0o755); err != nil {
		return ctx, fmt.Errorf("making the folder of artefacts: %w", err)
	}
	s.logf("artefacts: %s", s.settings.Artifacts)
	done := s.phase("cluster and images")
	err := s.startCluster(ctx)
	done()
	if err != nil {
		return ctx, err
	}
	cfg.WithKubeconfigFile(s.cluster.Kubeconfig())
	defer s.phase("deploy")()
	err = s.deploy(ctx)
	if err == nil && s.settings.Cluster != "" {
		err = s.replacePods(ctx)
	}
	if err == nil {
		err = s.awaitOperator(ctx)
	}
	if err != nil {
		s.keep(ctx, "deploy")
	}
	return ctx, err
}

func (s *suite) startCluster(ctx context.Context) error {
	images := []string{s.settings.Image, s.settings.ViewerImage, s.settings.S3Image}
	if s.hasPrevious = hasImage(ctx, s.settings.PreviousImage); s.hasPrevious {
		images = append(images, s.settings.PreviousImage, s.settings.PreviousViewerImage)
	}
	var err error
	s.cluster, err = cluster.Start(ctx, cluster.Options{
		Name: cmp.Or(s.settings.Cluster, s.settings.Name), Reuse: s.settings.Cluster != "", Keep: s.settings.Keep,
		Kind: s.settings.Kind, NodeImage: s.settings.NodeImage, Workers: 2,
		Images: images, Dir: s.settings.Artifacts, Progress: progress{s},
		AuditUsers: []string{operatorUser}, AuditGroups: []string{"leasehold.dev"},
	})
	if err != nil {
		return err
	}
	s.client, err = client.New(s.cluster.Config(), client.Options{Scheme: newScheme()})
	if err != nil {
		return fmt.Errorf("building the administrator's client: %w", err)
	}
	s.stopLogs, err = s.cluster.StreamLogs(ctx, filepath.Join(s.settings.Artifacts, "logs"), func(p *corev1.Pod) bool {
		return p.Namespace == operatorNamespace || strings.HasPrefix(p.Namespace, "e2e-")
	})
	return err
}

// finish writes the report and removes the cluster. The log streams end first, because they would
// fail without it.
func (s *suite) finish(ctx context.Context, _ *envconf.Config) (context.Context, error) {
	if s.cluster == nil {
		return ctx, nil
	}
	ctx = context.WithoutCancel(ctx)
	if s.stopLogs != nil {
		s.stopLogs()
	}
	_, auditErr := s.cluster.AuditLog(ctx)
	// The framework ignores errors of finish.
	s.failed = errors.Join(auditErr, s.report.write(s.settings.Artifacts, progress{s}), s.cluster.Stop(ctx))
	return ctx, nil
}

//nolint:thelper // the framework's order
func (s *suite) beforeTest(ctx context.Context, _ *envconf.Config, t *testing.T) (context.Context, error) {
	t.Helper()
	s.testBegan = time.Now()
	return ctx, nil
}

//nolint:thelper // the framework's order
func (s *suite) afterTest(ctx context.Context, _ *envconf.Config, t *testing.T) (context.Context, error) {
	t.Helper()
	s.report.phase(t.Name(), s.testBegan, t.Failed())
	s.keepTraces(ctx, t)
	return ctx, nil
}

// keepTraces collects them once for each test, before its teardown.
func (s *suite) keepTraces(ctx context.Context, t *testing.T) {
	t.Helper()
	if name, _, _ := strings.Cut(t.Name(), "/"); t.Failed() && !s.traces[name] {
		s.traces[name] = true
		s.keep(ctx, name)
	}
}

// keep writes the state of the cluster after a failure.
func (s *suite) keep(ctx context.Context, of string) {
	dir := filepath.Join(s.settings.Artifacts, "failures", of)
	s.logf("%s failed; objects, events, logs of the nodes: %s", of, dir)
	if err := s.cluster.Dump(context.WithoutCancel(ctx), dir); err != nil {
		s.logf("%v", err)
	}
}

// teardown is a step that cleans up: the framework runs it before afterTest.
func teardown(f func(ctx context.Context, g *WithT)) features.Func {
	return func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		t.Helper()
		shared.keepTraces(ctx, t)
		f(ctx, NewWithT(t))
		return ctx
	}
}

// step is a step of a feature that needs only a context and a Gomega.
func step(f func(ctx context.Context, g *WithT)) features.Func {
	return func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		t.Helper()
		f(ctx, NewWithT(t))
		return ctx
	}
}

// phase prints that a phase begins; the result prints how long it took.
func (s *suite) phase(name string) (done func()) {
	s.logf("%s ...", name)
	began := time.Now()
	return func() { s.report.phase(name, began, false) }
}

func (s *suite) logf(format string, args ...any) {
	fmt.Fprintf(progress{s}, format+"\n", args...)
}

// progress prefixes each line with the time since the start of the run.
type progress struct{ suite *suite }

// Write implements io.Writer.
func (p progress) Write(line []byte) (int, error) {
	since := time.Since(p.suite.began).Seconds()
	if _, err := fmt.Fprintf(os.Stderr, "%7.1f s  %s", since, line); err != nil {
		return 0, err
	}
	return len(line), nil
}

// hasImage reports whether the local engine has an image.
func hasImage(ctx context.Context, name string) bool {
	return exec.CommandContext(ctx, "docker", "image", "inspect", name).Run() == nil
}
