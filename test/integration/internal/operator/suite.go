// SPDX-License-Identifier: Apache-2.0

// Package operator is shared by the suites of the kinds: it runs the operator under test, two
// processes of the shipped binary with the shipped permissions and manifests, and queries the API
// server and the audit log.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/leasehold"
)

// Namespace and ServiceAccount of the operator.
const (
	Namespace = leasehold.Namespace
	User      = leasehold.User
)

// config is the folder of the manifests, relative to a suite's folder.
const config = "../../../config"

// OldestKubernetes labels the specs that depend most on the API server's version. .ci/run runs them
// on the oldest supported one.
var OldestKubernetes = Label("oldest")

// Options configure a Suite.
type Options struct {
	// Name of the suite and of its logs.
	Name string
	// AuditGroups are the API groups whose writes the suite counts, in addition to ours.
	AuditGroups []string
	// Args are flags of the operator after the shipped ones.
	Args []string
	// Env is added to the operator's environment.
	Env []string
	// EtcdArgs are more flags of etcd.
	EtcdArgs map[string][]string
	// Controllers of Kubernetes to run; nil for the default ones.
	Controllers []string
	// ExistingCluster allows the suite to use an operator that is deployed on a cluster of the user.
	ExistingCluster bool
	// Answers returns an object that admission accepts. Its dry-run creation tests that the
	// webhooks answer.
	Answers func() client.Object
}

// Suite is one control plane with one operator, for all parallel processes of a run. Only the first
// process, which started them, controls the operator's processes; Serial specs run there.
type Suite struct {
	// Config and Client act as an administrator; Join sets them.
	Config *rest.Config
	Client client.Client

	options      Options
	shared       plane
	controlPlane *env.ControlPlane
	installation *env.Installation // nil on an existing cluster
}

// plane is shared by the parallel processes of one run.
type plane struct {
	Kubeconfig, AuditLog, Kubectl string
	// Collects: deleted objects are removed with their dependents.
	Collects bool
}

// NewSuite returns a Suite that is not started.
func NewSuite(o Options) *Suite { return &Suite{options: o} }

// Run runs the specs of the calling package.
func (s *Suite) Run(t *testing.T) {
	t.Helper()
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(expect.Short)
	SetDefaultEventuallyPollingInterval(expect.Poll)
	SetDefaultConsistentlyDuration(expect.StaysFor)
	SetDefaultConsistentlyPollingInterval(expect.Poll)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, s.options.Name)
}

// Start starts the control plane and two replicas, and returns the input of Join. It is the first
// function of SynchronizedBeforeSuite.
func (s *Suite) Start(ctx SpecContext) []byte {
	GinkgoHelper()
	// The processes outlive this node, and so must their context.
	lasting := context.WithoutCancel(ctx)
	var err error
	s.controlPlane, err = leasehold.StartControlPlane(lasting, config, env.Options{
		AuditGroups: s.options.AuditGroups,
		EtcdArgs:    s.options.EtcdArgs,
		Controllers: s.options.Controllers, ExistingCluster: s.options.ExistingCluster,
	})
	if errors.Is(err, env.ErrExistingCluster) {
		Skip("on a cluster with an operator of its own this suite would change what is not its own, or lacks flags and endpoints")
	}
	Expect(err).NotTo(HaveOccurred())
	if os.Getenv("USE_EXISTING_CLUSTER") != "true" {
		s.install(lasting)
	}
	kubectl, err := s.controlPlane.KubectlPath()
	if err != nil {
		kubectl = ""
	}
	data, err := json.Marshal(plane{s.controlPlane.Kubeconfig(), s.controlPlane.AuditLog(), kubectl,
		s.controlPlane.HasControllerManager()})
	Expect(err).NotTo(HaveOccurred())
	return data
}

// install installs the shipped operator.
func (s *Suite) install(ctx context.Context) {
	GinkgoHelper()
	subject := leasehold.Subject(config, Manager(), slices.Concat([]string{
		// Short enough for a failover within a spec, and long enough to keep the Lease on a busy
		// machine with two cores.
		"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s",
		"--metrics-secure=false",
	}, s.options.Args)...)
	subject.Env = s.options.Env
	var err error
	s.installation, err = s.controlPlane.Install(ctx, subject)
	Expect(err).NotTo(HaveOccurred())
	for range 2 {
		_, err := s.installation.Start(ctx)
		Expect(err).NotTo(HaveOccurred())
	}
}

// Join connects a parallel process to the processes of Start and returns its client. It is the
// second function of SynchronizedBeforeSuite.
func (s *Suite) Join(ctx context.Context, data []byte) client.Client {
	GinkgoHelper()
	ctrl.SetLogger(GinkgoLogr)
	Expect(json.Unmarshal(data, &s.shared)).To(Succeed())
	var err error
	s.Config, err = clientcmd.BuildConfigFromFlags("", s.shared.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	s.Config.QPS = -1
	known := leasehold.Scheme()
	Expect(apiextensionsv1.AddToScheme(known)).To(Succeed())
	s.Client, err = client.New(s.Config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	By("waiting until the webhooks answer")
	Eventually(ctx, s.answers).WithTimeout(expect.Long).Should(Succeed())
	return s.Client
}

// End stops everything and keeps the operator's logs in the folder of reports. It is the second
// function of SynchronizedAfterSuite.
func (s *Suite) End(ctx SpecContext) {
	GinkgoHelper()
	if s.installation != nil {
		for _, r := range s.installation.Replicas() {
			Expect(r.Running()).To(BeTrue(), "replica %s ended by itself; the end of its log:\n%s", r.Name(), r.LogTail(20))
		}
		err := s.installation.Stop(ctx)
		s.keepLogs()
		Expect(err).NotTo(HaveOccurred())
	}
	if s.controlPlane != nil {
		Expect(s.controlPlane.Stop()).To(Succeed())
	}
}

func (s *Suite) keepLogs() {
	GinkgoHelper()
	dir := os.Getenv("ARTIFACTS")
	if dir == "" {
		return
	}
	for _, r := range s.installation.Replicas() {
		log, err := os.ReadFile(r.LogPath())
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, s.options.Name+"-"+r.Name()+".log"), log, 0o600)).To(Succeed())
	}
}

// Outlives reports whether the cluster outlives the suite.
func (s *Suite) Outlives() bool { return s.shared.AuditLog == "" }

// NeedsProcesses skips specs that need the operator's processes or the audit log.
func (s *Suite) NeedsProcesses() {
	GinkgoHelper()
	if s.installation == nil {
		Skip("needs the operator as processes of this suite; on an existing cluster test/e2e does this")
	}
}

// NeedsControllers skips specs that need the controllers of Kubernetes, which remove deleted
// namespaces, collect garbage and aggregate the role admin.
func (s *Suite) NeedsControllers() {
	GinkgoHelper()
	if !s.shared.Collects {
		Skip("needs kube-controller-manager, which KUBEBUILDER_ASSETS does not have; unset it and run `make controlplane`")
	}
}

// NeedsKubernetes skips specs for the behaviour of an API server of at least 1.<minor>.
func (s *Suite) NeedsKubernetes(minor int, why string) {
	GinkgoHelper()
	client, err := discovery.NewDiscoveryClientForConfig(s.Config)
	Expect(err).NotTo(HaveOccurred())
	info, err := client.ServerVersion()
	Expect(err).NotTo(HaveOccurred())
	// Some vendors add a plus sign.
	if got, err := strconv.Atoi(strings.TrimRight(info.Minor, "+")); err == nil && got < minor {
		Skip(fmt.Sprintf("needs Kubernetes 1.%d, %s; this is %s", minor, why, info.GitVersion))
	}
}

// Kubectl runs kubectl as an administrator and returns its output.
func (s *Suite) Kubectl(ctx context.Context, args ...string) (string, error) {
	GinkgoHelper()
	kubectl, kubeconfig := s.KubectlPath()
	out, err := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", kubeconfig}, args...)...).
		CombinedOutput()
	return string(out), err
}

// KubectlPath returns kubectl and the administrator's kubeconfig.
func (s *Suite) KubectlPath() (kubectl, kubeconfig string) {
	GinkgoHelper()
	if s.shared.Kubectl == "" {
		Skip("needs kubectl, which KUBEBUILDER_ASSETS does not have")
	}
	return s.shared.Kubectl, s.shared.Kubeconfig
}

// answers returns an error unless the webhooks answer.
func (s *Suite) answers(ctx context.Context) error {
	return s.Client.Create(ctx, s.options.Answers(), client.DryRunAll)
}
