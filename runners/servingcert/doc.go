// Package servingcert gives the webhook server its certificate straight from a
// Secret, and has cert-controller's rotator keep that Secret filled.
//
// Every replica serves from the Secret (Source); only the leader writes it
// (AddRotator). A new certificate is served from the next handshake on: nothing
// is mounted, so there is no kubelet delay, and nothing restarts.
package servingcert
