// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestHTTP2IsOff(t *testing.T) {
	o, err := parseOptions(nil, inPod)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	source, err := o.certificate()
	if err != nil {
		t.Fatal(err)
	}
	for server, options := range map[string][]func(*tls.Config){"metrics": optionsOf(o, nil).Metrics.TLSOpts,
		"webhooks": webhooksOf(o, nil).TLSOpts, "webhooks with a Secret": webhooksOf(o, source).TLSOpts} {
		// controller-runtime's own default.
		config := &tls.Config{NextProtos: []string{"h2"}}
		for _, option := range options {
			option(config)
		}
		if slices.Contains(config.NextProtos, "h2") {
			t.Errorf("%s offer HTTP/2", server)
		}
	}
}

func TestCertificateComesFromTheSecretOrFromFiles(t *testing.T) {
	cases := map[string]struct {
		args []string
		want bool
	}{
		"Secret": {nil, true},
		"Files":  {[]string{"--webhook-cert-path=/certs"}, false},
		"None":   {[]string{"--enable-webhooks=false"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			o, err := parseOptions(tc.args, inPod)
			if err != nil {
				t.Fatal(err)
			}
			source, err := o.certificate()
			if err != nil {
				t.Fatal(err)
			}
			if (source != nil) != tc.want {
				t.Errorf("a source for the Secret: %t, want %t", source != nil, tc.want)
			}
			config := &tls.Config{}
			for _, option := range webhooksOf(o, source).TLSOpts {
				option(config)
			}
			if (config.GetCertificate != nil) != tc.want {
				t.Fatalf("GetCertificate is set: %t, want %t", config.GetCertificate != nil, tc.want)
			}
			if !tc.want {
				return
			}
			const secret = "Secret system/leasehold-webhook-server-cert is empty"
			if _, err := config.GetCertificate(nil); err == nil || !strings.Contains(err.Error(), secret) {
				t.Errorf("GetCertificate() = %v, want %q in it", err, secret)
			}
		})
	}
}

// The manager's image has no certificates, so the program's own roots are used.
func TestRootsWithoutCertificatesOfTheSystem(t *testing.T) {
	const none = "/nonexistent"
	if os.Getenv("SSL_CERT_DIR") != none {
		self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		self.Env = append(os.Environ(), "SSL_CERT_FILE="+none, "SSL_CERT_DIR="+none)
		if printed, err := self.CombinedOutput(); err != nil {
			t.Errorf("without files of certificates: %v\n%s", err, printed)
		}
		return
	}
	roots, err := x509.SystemCertPool()
	if err != nil || roots.Equal(x509.NewCertPool()) {
		t.Errorf("no roots (%v)", err)
	}
}
