// SPDX-License-Identifier: Apache-2.0

// Package servingcert serves the webhooks' certificate directly from a Secret, and runs
// cert-controller's rotator for that Secret.
//
// Every replica serves from the Secret (Source); only the leader writes it (AddRotator). A new
// certificate is used from the next handshake on. Nothing is mounted, so there is no delay by the
// kubelet and no restart.
package servingcert
