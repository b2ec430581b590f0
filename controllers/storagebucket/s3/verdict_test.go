package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"
	"gotest.tools/v3/golden"

	"leasehold.dev/api/v1beta1"
)

func TestVerdictOn(t *testing.T) {
	sent := func(err error) error { return &url.Error{Op: "Head", URL: "http://s3.example.com/b", Err: err} }
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"success": {nil, v1beta1.ReasonProbeSucceeded},
		"wrapped": {fmt.Errorf("requesting: %w", minio.ErrorResponse{StatusCode: 403}), v1beta1.ReasonAccessDenied},
		"forbidden": {sent(&net.OpError{Op: "dial", Err: &ForbiddenError{Address: netip.MustParseAddr("127.0.0.1")}}),
			v1beta1.ReasonEndpointForbidden},
		"out of time":      {sent(context.DeadlineExceeded), v1beta1.ReasonProbeTimeout},
		"reading too long": {sent(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), v1beta1.ReasonProbeTimeout},
		"refused":          {sent(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), v1beta1.ReasonEndpointUnreachable},
		"no such name": {sent(&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}),
			v1beta1.ReasonEndpointUnreachable},
		"reset": {sent(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), v1beta1.ReasonEndpointUnreachable},
		"cut":   {sent(io.EOF), v1beta1.ReasonEndpointUnreachable},
		"unknown authority": {sent(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}),
			v1beta1.ReasonTLSVerificationFailed},
		"not TLS":    {sent(tls.RecordHeaderError{}), v1beta1.ReasonTLSVerificationFailed},
		"plain HTTP": {sent(http.ErrSchemeMismatch), v1beta1.ReasonTLSVerificationFailed},
		"not HTTP":   {sent(errors.New("malformed HTTP response")), v1beta1.ReasonServerError},
		"old TLS, in the handshake": {sent(errors.New("tls: server selected unsupported protocol version 301")),
			v1beta1.ReasonTLSVerificationFailed},
		"cut, in the handshake": {sent(io.EOF), v1beta1.ReasonEndpointUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			got := verdictOn(tc.err, strings.HasSuffix(name, "in the handshake"))
			if got.Reason != tc.want {
				t.Errorf("verdictOn(%v) = %s, want %s", tc.err, got.Reason, tc.want)
			}
			if got.Message == "" {
				t.Error("no message")
			}
		})
	}
}

func TestVerdictOn_servicesUnknown(t *testing.T) {
	for unknown, flag := range map[bool]string{true: "--service-cidr", false: "--endpoint-allow-cidr"} {
		refused := &net.OpError{Op: "dial",
			Err: &ForbiddenError{Address: netip.MustParseAddr("10.96.0.10"), ServicesUnknown: unknown}}
		got := verdictOn(&url.Error{Op: "Head", Err: refused}, false)
		if got.Reason != v1beta1.ReasonEndpointForbidden || !strings.Contains(got.Message, flag) {
			t.Errorf("unknown %t: %+v, want EndpointForbidden with %s in the message", unknown, got, flag)
		}
		if !unknown && strings.Contains(got.Message, "--service-cidr") {
			t.Errorf("the Service ranges are known, and the message lists how to set them: %s", got.Message)
		}
	}
}

// TestVerdictsGolden compares the verdicts on responses with a golden file: each code with each
// status, with and without a region.
func TestVerdictsGolden(t *testing.T) {
	codes := slices.Sorted(maps.Keys(codeReasons))
	codes = append(codes, "", "Whatever", "RequestTimeTooSkewed", CodeExists, CodeOwned, codeNoTags)
	var got strings.Builder
	seen := map[string]bool{}
	for _, region := range []string{"", "eu-west-1"} {
		for _, code := range codes {
			fmt.Fprintf(&got, "code %q, region %q:", code, region)
			for _, status := range []int{201, 204, 301, 302, 307, 400, 401, 403, 404, 409, 429, 500, 503} {
				v := verdictOn(minio.ErrorResponse{StatusCode: status, Code: code, Region: region}, false)
				fmt.Fprintf(&got, " %d %s", status, v.Reason)
				seen[v.Reason+": "+v.Message] = true
			}
			got.WriteString("\n")
		}
	}
	for reason, message := range messages {
		seen[reason+": "+message] = true
	}
	for _, message := range slices.Sorted(maps.Keys(seen)) {
		got.WriteString(message + "\n")
	}
	golden.Assert(t, got.String(), "verdicts.txt")
}
