package tenant_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	coordinationv1 "k8s.io/api/coordination/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/record"
)

const (
	operatorNamespace = "leasehold-system"
	operatorUser      = "system:serviceaccount:leasehold-system:leasehold-controller-manager"
	electionLease     = "manager.leasehold.dev"
)

// subject is the operator under test: two processes of the real binary. On an
// existing cluster it is what was deployed there, and has no deployment of ours.
type subject struct {
	installation *env.Installation
}

func newSubject(ctx context.Context, cp *env.ControlPlane) *subject {
	GinkgoHelper()
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" {
		return &subject{}
	}
	binary, err := gexec.Build("leasehold.dev")
	Expect(err).NotTo(HaveOccurred())
	s := &subject{}
	s.installation, err = cp.Install(ctx, env.Subject{
		Manifests: "../../../config/default",
		Binary:    binary,
		Args: func(p env.ReplicaPorts) []string {
			return []string{
				// Short, so that a failover fits into a spec; not so short that a
				// busy machine of two cores loses the Lease.
				"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s",
				fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", p.Probe),
				fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", p.Metrics), "--metrics-secure=false",
				"--webhook-host=127.0.0.1", fmt.Sprintf("--webhook-port=%d", p.Webhook),
			}
		},
	})
	Expect(err).NotTo(HaveOccurred())
	for range 2 {
		_, err := s.installation.Start(ctx)
		Expect(err).NotTo(HaveOccurred())
	}
	return s
}

// end stops the operator. Its logs are kept where reports go.
func (s *subject) end(ctx context.Context) {
	GinkgoHelper()
	gexec.CleanupBuildArtifacts()
	if s.installation == nil {
		return
	}
	for _, r := range s.installation.Replicas() {
		Expect(r.Running()).To(BeTrue(), "replica %s ended by itself; the end of its log:\n%s", r.Name(), r.LogTail(20))
	}
	err := s.installation.Stop(ctx)
	if dir := os.Getenv("ARTIFACTS"); dir != "" {
		for _, r := range s.installation.Replicas() {
			log, err := os.ReadFile(r.LogPath())
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(filepath.Join(dir, "tenant-"+r.Name()+".log"), log, 0o600)).To(Succeed())
		}
	}
	Expect(err).NotTo(HaveOccurred())
}

// owned skips, visibly, what needs the operator's processes or the audit log.
func owned() {
	GinkgoHelper()
	if operator == nil || operator.installation == nil {
		Skip("needs the operator as processes of this suite; on an existing cluster test/e2e does this")
	}
}

// settled waits until the Tenants of earlier specs are gone.
func settled(ctx SpecContext) {
	collected()
	Eventually(ctx, func(ctx context.Context) ([]v1beta1.Tenant, error) {
		var list v1beta1.TenantList
		return list.Items, k8s.List(ctx, &list)
	}).WithTimeout(expect.Long).Should(BeEmpty())
}

// collected skips, visibly, what needs the controllers of Kubernetes: deleted
// namespaces go away, owners are followed, the role admin has rules.
func collected() {
	GinkgoHelper()
	if !shared.Collects {
		Skip("needs kube-controller-manager, which KUBEBUILDER_ASSETS does not have; unset it and run `make controlplane`")
	}
}

// leader is the replica that the Lease names, once there is one that runs.
func (s *subject) leader(ctx context.Context) *env.Replica {
	GinkgoHelper()
	var leader *env.Replica
	Eventually(func(g Gomega) {
		var lease coordinationv1.Lease
		g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: electionLease}, &lease)).To(Succeed())
		g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
		for _, r := range s.installation.Replicas() {
			if strings.HasPrefix(*lease.Spec.HolderIdentity, r.Name()+"_") && r.Running() {
				leader = r
			}
		}
		g.Expect(leader).NotTo(BeNil(), "holder %s does not run", *lease.Spec.HolderIdentity)
	}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	return leader
}

// start starts the replicas that do not run, and waits until admission works.
func (s *subject) start(ctx context.Context) {
	GinkgoHelper()
	for _, r := range s.installation.Replicas() {
		if !r.Running() {
			Expect(r.Restart()).To(Succeed())
		}
	}
	for _, r := range s.installation.Replicas() {
		Eventually(ctx, r.Ready).WithTimeout(expect.Medium).Should(Succeed())
	}
	Eventually(ctx, func(ctx context.Context) error {
		return k8s.Create(ctx, build("answers"), client.DryRunAll)
	}).WithTimeout(expect.Short).Should(Succeed())
}

func (s *subject) stop(ctx context.Context) {
	GinkgoHelper()
	for _, r := range s.installation.Replicas() {
		code, err := r.Stop(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeZero(), "a replica that is asked to stop ends well")
	}
}

// series reads one series of the leader's metrics; absent is not found.
func series(ctx context.Context, name string) (value float64, found bool) {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d/metrics", operator.leader(ctx).Ports().Metrics), nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err = strconv.ParseFloat(text, 64)
			Expect(err).NotTo(HaveOccurred())
			return value, true
		}
	}
	Expect(lines.Err()).NotTo(HaveOccurred())
	return 0, false
}

func metric(ctx context.Context, name string) float64 {
	value, _ := series(ctx, name)
	return value
}

func hasMetric(ctx context.Context, name string) bool {
	_, found := series(ctx, name)
	return found
}

// reconciles is how many passes over Tenants the leader has made well.
func reconciles(ctx context.Context) float64 {
	return metric(ctx, `controller_runtime_reconcile_total{controller="tenant",result="success"}`)
}

func auditPosition() record.Bookmark {
	GinkgoHelper()
	position, err := record.End(shared.AuditLog)
	Expect(err).NotTo(HaveOccurred())
	return position
}

// operatorWrites are what the operator tried to write since, as "verb
// resource/name", as far as they meet the conditions; the Lease and events are
// counted elsewhere.
func operatorWrites(since record.Bookmark, conditions ...record.Match) []string {
	GinkgoHelper()
	events, _, err := record.ReadAuditLogFrom(shared.AuditLog, since)
	Expect(err).NotTo(HaveOccurred())
	var writes []string
	conditions = append(conditions,
		record.Not(record.Resource("coordination.k8s.io", "leases")), record.Not(record.Resource("events.k8s.io", "events")))
	for _, e := range record.Writes(events, operatorUser, conditions...) {
		writes = append(writes, describe(e))
	}
	return writes
}

func describe(e auditv1.Event) string {
	return fmt.Sprintf("%s %s/%s %s", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Name)
}

// firstStatusOf is the first status of a Tenant that the API server stored.
func firstStatusOf(tenant string) v1beta1.TenantStatus {
	GinkgoHelper()
	if shared.AuditLog == "" {
		Skip("needs the audit log, which an existing cluster does not share")
	}
	events, err := record.ReadAuditLog(shared.AuditLog)
	Expect(err).NotTo(HaveOccurred())
	for _, e := range record.Writes(events, operatorUser, record.Resource(v1beta1.GroupVersion.Group, "tenants"), record.Named(tenant), record.Succeeded) {
		if e.ObjectRef.Subresource == "status" {
			var stored v1beta1.Tenant
			Expect(json.Unmarshal(e.ResponseObject.Raw, &stored)).To(Succeed())
			return stored.Status
		}
	}
	Fail("the operator wrote no status of " + tenant)
	return v1beta1.TenantStatus{}
}

// lifeOf counts how often the operator created the namespace, as far as it was
// told so, and how often it asked for its deletion.
func lifeOf(namespace string) (created, deleted int) {
	GinkgoHelper()
	events, err := record.ReadAuditLog(shared.AuditLog)
	Expect(err).NotTo(HaveOccurred())
	for _, e := range record.Writes(events, operatorUser, record.Resource("", "namespaces"), record.Named(namespace)) {
		switch {
		case e.Verb == "delete":
			deleted++
		case e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusCreated:
			created++
		}
	}
	return created, deleted
}
