// SPDX-License-Identifier: Apache-2.0

// Package certmanager_test tests the overlay for cert-manager: with the controllers of cert-manager
// itself, and with those of the harness that stand in for it.
package certmanager_test

import (
	"log"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/test/harness/expect"
)

func TestCertManager(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(expect.Short)
	SetDefaultEventuallyPollingInterval(expect.Poll)
	RunSpecs(t, "CertManager")
}

var _ = BeforeSuite(func() {
	ctrl.SetLogger(GinkgoLogr)
	log.SetOutput(GinkgoWriter) // net/http logs failed handshakes
})
