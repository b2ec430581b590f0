// SPDX-License-Identifier: Apache-2.0

// Package manager_test tests the shipped manager: two processes of the binary with election, fence,
// certificate, probes and metrics, on a real API server.
package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
)

var (
	controlPlane *env.ControlPlane // only in the process that started it
	shared       plane
	config       *rest.Config
	kube         client.Client
)

// plane is shared by the processes of one run.
type plane struct{ Kubeconfig, AuditLog string }

func TestManager(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(expect.Short)
	SetDefaultEventuallyPollingInterval(expect.Poll)
	SetDefaultConsistentlyDuration(expect.StaysFor)
	SetDefaultConsistentlyPollingInterval(expect.Poll)
	RunSpecs(t, "Manager")
}

var _ = SynchronizedBeforeSuite(func(ctx SpecContext) []byte {
	var err error
	// The context of this node ends with the node; the control plane must not.
	controlPlane, err = env.Start(context.WithoutCancel(ctx),
		env.Options{AuditGroups: []string{"", "admissionregistration.k8s.io"}})
	if errors.Is(err, env.ErrExistingCluster) {
		Skip("the installation would replace the one that is there")
	}
	Expect(err).NotTo(HaveOccurred())
	data, err := json.Marshal(plane{controlPlane.Kubeconfig(), controlPlane.AuditLog()})
	Expect(err).NotTo(HaveOccurred())
	return data
}, func(data []byte) {
	ctrl.SetLogger(GinkgoLogr)
	log.SetOutput(GinkgoWriter) // net/http logs failed handshakes
	Expect(json.Unmarshal(data, &shared)).To(Succeed())
	var err error
	config, err = clientcmd.BuildConfigFromFlags("", shared.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	kube, err = client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
})

var _ = SynchronizedAfterSuite(func() {}, func() {
	if controlPlane != nil {
		Expect(controlPlane.Stop()).To(Succeed())
	}
})
