package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"

	"leasehold.dev/api/v1beta1"
)

func TestVerdictOn(t *testing.T) {
	answer := func(status int, code, region string) error {
		return minio.ErrorResponse{StatusCode: status, Code: code, Region: region, Message: "the server's own words",
			Server: "secret"}
	}
	sent := func(err error) error { return &url.Error{Op: "Head", URL: "http://s3.example.com/b", Err: err} }
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"success":           {nil, v1beta1.ReasonProbeSucceeded},
		"no such bucket":    {answer(404, "NoSuchBucket", ""), v1beta1.ReasonBucketNotFound},
		"another 404":       {answer(404, "NoSuchKey", ""), v1beta1.ReasonServerError},
		"access denied":     {answer(403, "AccessDenied", "us-east-1"), v1beta1.ReasonAccessDenied},
		"403 without words": {answer(403, "", ""), v1beta1.ReasonAccessDenied},
		"403 unknown":       {answer(403, "Whatever", ""), v1beta1.ReasonAccessDenied},
		"unknown key":       {answer(403, "InvalidAccessKeyId", ""), v1beta1.ReasonInvalidCredentials},
		"wrong secret":      {answer(403, "SignatureDoesNotMatch", ""), v1beta1.ReasonInvalidCredentials},
		"expired token":     {answer(400, "ExpiredToken", ""), v1beta1.ReasonInvalidCredentials},
		"401":               {answer(401, "", ""), v1beta1.ReasonInvalidCredentials},
		"clocks differ":     {answer(403, "RequestTimeTooSkewed", ""), v1beta1.ReasonServerError},
		"signed elsewhere":  {answer(400, "AuthorizationHeaderMalformed", "eu-west-1"), v1beta1.ReasonRegionMismatch},
		"400":               {answer(400, "400 Bad Request", ""), v1beta1.ReasonServerError},
		"other region":      {answer(301, "301 Moved Permanently", "eu-west-1"), v1beta1.ReasonRegionMismatch},
		"region by code":    {answer(301, "PermanentRedirect", ""), v1beta1.ReasonRegionMismatch},
		"redirect":          {answer(302, "302 Found", ""), v1beta1.ReasonEndpointForbidden},
		"429":               {answer(429, "TooManyRequests", ""), v1beta1.ReasonThrottled},
		"slow down":         {answer(503, "SlowDown", ""), v1beta1.ReasonThrottled},
		"500":               {answer(500, "InternalError", ""), v1beta1.ReasonServerError},
		"500 that lies":     {answer(500, "AccessDenied", ""), v1beta1.ReasonServerError},
		"204":               {answer(204, "NoSuchBucket", ""), v1beta1.ReasonServerError},
		"not empty":         {answer(409, "BucketNotEmpty", ""), v1beta1.ReasonBucketNotEmpty},
		"wrapped":           {fmt.Errorf("requesting: %w", answer(403, "AccessDenied", "")), v1beta1.ReasonAccessDenied},
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
	} {
		t.Run(name, func(t *testing.T) {
			got := verdictOn(tc.err, false)
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
			t.Errorf("the Service ranges are known, and the message asks for them: %s", got.Message)
		}
	}
}

func TestReasonsHaveMessages(t *testing.T) {
	for code, reason := range codeReasons {
		if messages[reason] == "" {
			t.Errorf("no message for %s (%s)", code, reason)
		}
	}
}

func TestVerdictOn_failed_handshake(t *testing.T) {
	version := &url.Error{Err: errors.New("tls: server selected unsupported protocol version 301")}
	if got := verdictOn(version, true); got.Reason != v1beta1.ReasonTLSVerificationFailed {
		t.Errorf("old TLS: %s", got.Reason)
	}
	if got := verdictOn(&url.Error{Err: io.EOF}, true); got.Reason != v1beta1.ReasonEndpointUnreachable {
		t.Errorf("connection closed in the handshake: %s", got.Reason)
	}
}

// The response to HEAD has the region, so a GET would find nothing new.
func TestProbe_redirect_with_region_is_not_ambiguous(t *testing.T) {
	c, requests := serve(t, allowLoopback, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "eu-west-1")
		w.WriteHeader(http.StatusMovedPermanently)
	})
	if got := c.Probe(t.Context()); got.Reason != v1beta1.ReasonRegionMismatch {
		t.Errorf("got %+v, want %s", got, v1beta1.ReasonRegionMismatch)
	}
	if sent := requests(); len(sent) != 1 {
		t.Errorf("requests %q, want 1", sent)
	}
}
