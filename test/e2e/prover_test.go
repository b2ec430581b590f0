// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/klient/decoder"
	"sigs.k8s.io/e2e-framework/klient/k8s"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/test/harness/invariant"
	proverreport "leasehold.dev/test/harness/report"
)

const (
	// proverManifest is the example of the prover's documentation.
	proverManifest = root + "/test/harness/docs/indexed-job.yaml"
	// proverTimeout bounds the shards, which a small node runs sequentially.
	proverTimeout = 10 * time.Minute
	// fewPlans selects four plans, one for each shard. The example operator fails two of them.
	fewPlans = "--match=:(lost-response|failed-write[^:]*):(POST:/apis/batch|DELETE:)"
	// reportsPath is the node's folder of the volume for reports.
	reportsPath = "/var/local/e2e-prover"
)

// sweeps are one run by Pods, each with a shard, and one of all plans on this machine.
type sweeps struct {
	namespace, node string
	volume          *corev1.PersistentVolume
	dir             string   // has the folder of each shard
	argv            []string // of each shard, without the flags that select it
}

func TestProver(t *testing.T) {
	if !hasImage(t.Context(), shared.settings.ProverImage) {
		t.Skip("there is no image of the prover; hack/e2e-images.sh has printed why")
	}
	s := &sweeps{namespace: unique("prover"), dir: t.TempDir()}
	testenv.Test(t, features.New("shards of prove").
		Assess("its shards run as an Indexed Job under the Pod Security Standard `restricted`",
			step(func(ctx context.Context, g *WithT) {
				s.node = shared.workers(ctx, g)[0]
				g.Expect(shared.cluster.Load(ctx, s.node, shared.settings.ProverImage)).To(Succeed())
				strictNamespace(ctx, g, s.namespace)
				s.provideVolume(ctx, g)
				s.apply(ctx, g)
				g.Expect(s.exitCodes(ctx, g)).To(ConsistOf(BeEquivalentTo(0), BeEquivalentTo(1), BeEquivalentTo(1)))
			})).
		Assess("their merged report equals one run with the same seed", step(func(ctx context.Context, g *WithT) {
			_, err := shared.kubectl(ctx, "cp", "--namespace="+s.namespace, "prove-reports:/reports", s.dir)
			g.Expect(err).NotTo(HaveOccurred())
			merged, one := filepath.Join(s.dir, "merged"), filepath.Join(s.dir, "one")
			shards, err := filepath.Glob(filepath.Join(s.dir, "shard-*"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.prove(ctx, slices.Concat([]string{"merge", "--dir=" + merged}, shards)...)).To(Equal(1))
			g.Expect(s.prove(ctx, append(s.argv, "--workers=2", "--dir="+one)...)).To(Equal(1))
			g.Expect(conclusions(g, merged)).To(HaveLen(6), "of 4 plans, and 2 findings")
			g.Expect(conclusions(g, merged)).To(Equal(conclusions(g, one)))
		})).
		Teardown(teardown(func(ctx context.Context, g *WithT) {
			discard(ctx, g, namespaceOf(s.namespace), s.volume)
			_, err := shared.cluster.Exec(ctx, s.node, "rm", "-rf", reportsPath)
			g.Expect(err).NotTo(HaveOccurred())
		})).
		Feature())
}

// provideVolume creates a volume for several Pods, in place of a cluster's shared storage. It is on
// one node, which keeps all Pods there.
func (s *sweeps) provideVolume(ctx context.Context, g *WithT) {
	_, err := shared.cluster.Exec(ctx, s.node, "mkdir", "-p", reportsPath)
	g.Expect(err).NotTo(HaveOccurred())
	s.volume = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			StorageClassName:       "standard", // the default of kind
			ClaimRef:               &corev1.ObjectReference{Namespace: s.namespace, Name: "prove-reports"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: reportsPath}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{s.node}},
				}}},
			}},
		},
	}
	g.Expect(shared.client.Create(ctx, s.volume)).To(Succeed())
}

// apply creates the objects of the manifest in the namespace, with the image under test and few plans.
func (s *sweeps) apply(ctx context.Context, g *WithT) {
	manifest, err := os.Open(proverManifest)
	g.Expect(err).NotTo(HaveOccurred())
	defer manifest.Close()
	setImage := func(pod *corev1.PodSpec) {
		g.Expect(pod.Containers).To(HaveLen(1))
		g.Expect(pod.Containers[0].Image).To(Equal("prove"))
		pod.Containers[0].Image, pod.Containers[0].ImagePullPolicy = shared.settings.ProverImage, corev1.PullIfNotPresent
	}
	objects, err := decoder.DecodeAll(ctx, manifest, decoder.MutateNamespace(s.namespace),
		decoder.MutateOption(func(o k8s.Object) error {
			switch o := o.(type) {
			case *corev1.Pod:
				setImage(&o.Spec)
			case *batchv1.Job:
				setImage(&o.Spec.Template.Spec)
				container := &o.Spec.Template.Spec.Containers[0]
				container.Args = append(container.Args, fewPlans)
				s.argv = slices.DeleteFunc(slices.Clone(container.Args), func(arg string) bool {
					return strings.Contains(arg, "JOB_COMPLETION_INDEX")
				})
			}
			return nil
		}))
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		g.Expect(shared.client.Create(ctx, o)).To(Succeed())
	}
}

// exitCodes waits for the end of the Job and returns the exit codes of its Pods.
func (s *sweeps) exitCodes(ctx context.Context, g *WithT) (codes []int32) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "prove"}}
	g.Eventually(func(g Gomega, ctx context.Context) {
		g.Expect(shared.client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
		g.Expect(job.Status.Conditions).To(ContainElement(
			HaveField("Type", BeElementOf(batchv1.JobComplete, batchv1.JobFailed))))
	}).WithContext(ctx).WithTimeout(proverTimeout).WithPolling(poll).Should(Succeed())
	var pods corev1.PodList
	g.Expect(shared.client.List(ctx, &pods, client.InNamespace(s.namespace),
		client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(Succeed())
	for i := range pods.Items {
		for _, status := range pods.Items[i].Status.ContainerStatuses {
			g.Expect(status.State.Terminated).NotTo(BeNil(), pods.Items[i].Name)
			codes = append(codes, status.State.Terminated.ExitCode)
		}
	}
	return codes
}

// prove runs the image's prover on this machine and returns its exit code.
func (s *sweeps) prove(ctx context.Context, argv ...string) (int, error) {
	dir := shared.settings.ProverDir
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "bin", "prove"), argv...)
	cmd.Dir = filepath.Join(dir, "project")
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+filepath.Join(dir, "controlplane"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) && exit.ExitCode() == 1 {
		return cmd.ProcessState.ExitCode(), nil
	}
	return 0, fmt.Errorf("running prove %s: %w: %s", strings.Join(argv, " "), err, out)
}

// conclusions returns a line for each plan and each finding of a report.
func conclusions(g *WithT, dir string) (lines []string) {
	sweep, err := proverreport.LoadSweep(dir)
	g.Expect(err).NotTo(HaveOccurred())
	for _, o := range sweep.Outcomes {
		var broken []string
		for _, v := range o.Verdicts {
			if v.Result == invariant.Broken {
				broken = append(broken, v.Invariant)
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %s %q", o.Plan, o.Result, broken))
	}
	for _, f := range sweep.Findings() {
		var plans []string
		for _, r := range f.Runs {
			plans = append(plans, r.Plan)
		}
		slices.Sort(plans)
		lines = append(lines, fmt.Sprintf("%s, in %q", f.Finding, plans))
	}
	slices.Sort(lines)
	return lines
}
