// SPDX-License-Identifier: Apache-2.0

package sample

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	archivev1 "leasehold.dev/test/harness/testdata/archiver/api/v1"
)

func TestSlowOperator(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	g.SetDefaultEventuallyTimeout(expect.Medium)
	cp, err := env.Start(ctx, env.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(cp.Stop()).To(Succeed()) }()
	operator, err := cp.Install(ctx, env.InstallOptions{
		Manifests: "../../testdata/archiver/config/default", // or YAML files, or a chart
		Binary:    "../../../../bin/archiver",
		Args: func(p env.ReplicaPorts) []string { // they follow the arguments of the Deployment
			return []string{fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", p.Probe)}
		},
	})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(operator.Stop(ctx)).To(Succeed()) }()
	replica, err := operator.Start(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(replica.Ready).WithContext(ctx).Should(Succeed(), replica.LogTail(20))

	g.Expect(archivev1.AddToScheme(clientgoscheme.Scheme)).To(Succeed())
	k8s, err := client.New(cp.Config(), client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	backup := &archivev1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"}}
	backup.Spec.Database = "orders"
	g.Expect(k8s.Create(ctx, backup)).To(Succeed())
	g.Eventually(expect.Fetched(k8s, backup)).WithContext(ctx).Should(And(
		expect.HaveFinalizer(archivev1.Finalizer), expect.HaveCondition("Ready", metav1.ConditionTrue)))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
	job.Name = backup.Status.JobName
	g.Eventually(expect.Fetched(k8s, job)).WithContext(ctx).Should(expect.BeControlledBy(backup))
	g.Eventually(func() ([]eventsv1.Event, error) {
		var list eventsv1.EventList
		err := k8s.List(ctx, &list, client.InNamespace(operator.Shipped().Namespace))
		return list.Items, err
	}).Should(expect.ContainEvent(expect.Event{Reason: "LeaderElection", Note: "became leader"}))
}
