package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"syscall"
	"testing"

	"leasehold.dev/api/v1beta1"
)

func TestVerdictOn(t *testing.T) {
	sent := func(err error) error { return &url.Error{Op: "Head", URL: "http://s3.example.com/b", Err: err} }
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"success": {nil, v1beta1.ReasonProbeSucceeded},
		"wrapped": {fmt.Errorf("requesting: %w", &answer{status: 403}), v1beta1.ReasonAccessDenied},
		"forbidden": {sent(&net.OpError{Op: "dial", Err: &ForbiddenError{Address: netip.MustParseAddr("127.0.0.1")}}),
			v1beta1.ReasonEndpointForbidden},
		"out of time":      {sent(context.DeadlineExceeded), v1beta1.ReasonProbeTimeout},
		"reading too long": {sent(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), v1beta1.ReasonProbeTimeout},
		"refused":          {sent(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), v1beta1.ReasonEndpointUnreachable},
		"no such name": {sent(&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}),
			v1beta1.ReasonEndpointUnreachable},
		"reset":                        {sent(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), v1beta1.ReasonEndpointUnreachable},
		"cut":                          {sent(io.EOF), v1beta1.ReasonEndpointUnreachable},
		"plain HTTP":                   {sent(http.ErrSchemeMismatch), v1beta1.ReasonTLSVerificationFailed},
		"not HTTP":                     {sent(errors.New("malformed HTTP response")), v1beta1.ReasonServerError},
		"old TLS":                      {sent(handshakeError{errors.New("tls: unsupported version")}), v1beta1.ReasonTLSVerificationFailed},
		"cut in the handshake":         {sent(handshakeError{io.EOF}), v1beta1.ReasonEndpointUnreachable},
		"out of time in the handshake": {sent(handshakeError{context.DeadlineExceeded}), v1beta1.ReasonProbeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Client{}).verdictOn(tc.err)
			if got.Reason != tc.want {
				t.Errorf("verdictOn(%v) = %s, want %s", tc.err, got.Reason, tc.want)
			}
			if got.Message == "" {
				t.Error("no message")
			}
		})
	}
}
