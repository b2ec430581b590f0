package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"leasehold.dev/api/v1beta1"
)

// Verdict is the result of a request, as a reason and a message of the API.
type Verdict struct {
	// Reason is one of the reasons of a StorageBucket's Ready condition.
	Reason string
	// Message is for users. It comes from a fixed table.
	Message string
}

// OK reports whether the bucket can be used.
func (v Verdict) OK() bool { return v.Reason == v1beta1.ReasonProbeSucceeded }

// Missing reports whether the bucket does not exist.
func (v Verdict) Missing() bool { return v.Reason == v1beta1.ReasonBucketNotFound }

// Succeeded returns the verdict on a bucket that can be used.
func Succeeded() Verdict { return succeeded }

// Taken returns the verdict on a bucket of another account.
func Taken() Verdict { return taken }

// verdictOn returns the verdict on the error of a request; nil is a success.
func (c *Client) verdictOn(err error) Verdict {
	if err == nil {
		return succeeded
	}
	if a, ok := errors.AsType[*answer](err); ok {
		return c.verdictOnAnswer(a)
	}
	if errors.Is(err, errNoS3) {
		return notS3
	}
	if _, ok := errors.AsType[*ForbiddenError](err); ok {
		return forbidden
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return timedOut
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return noTLS
	}
	if isTruncated(err) {
		return closed
	}
	if handshake, ok := errors.AsType[handshakeError](err); ok {
		return c.verdictOnHandshake(handshake)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return noName
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return unreachable
	}
	return notS3
}

// isTruncated reports whether the connection ended before the response did.
func isTruncated(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// verdictOnHandshake returns the verdict on the error of a TLS handshake.
func (c *Client) verdictOnHandshake(err error) Verdict {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		if c.target.VirtualHost {
			return wrongVirtualHost
		}
		return wrongHost
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return expired
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		if c.target.Roots != nil {
			return notInBundle
		}
		return unknownAuthority
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return noTLS
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return badCertificate
	}
	return badHandshake
}

// verdictOnAnswer returns the verdict on a response that is not a success.
func (c *Client) verdictOnAnswer(a *answer) Verdict {
	known, isKnown := byCode[a.code]
	isRedirect := a.status >= 300 && a.status < 400
	switch {
	case isRedirect && a.region != "" && a.region != c.target.Region:
		return otherRegion
	case isRedirect && a.region == "" && known.Reason == v1beta1.ReasonRegionMismatch:
		return otherRegionOrEndpoint
	case isRedirect:
		return redirected
	// The operator creates a bucket that does not exist, so a code alone is no proof.
	case isKnown && a.status >= 400 && (!known.Missing() || a.status == http.StatusNotFound):
		return known
	case a.code == "" && (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden):
		return deniedBefore
	case a.status == http.StatusUnauthorized:
		return badKeys
	case a.status == http.StatusForbidden:
		return denied
	case a.status == http.StatusTooManyRequests:
		return throttled
	case a.status == http.StatusBadGateway, a.status == http.StatusServiceUnavailable,
		a.status == http.StatusGatewayTimeout:
		return unavailable
	case a.status >= 500:
		return failing
	case a.status >= 400 && a.code != "":
		return refused
	}
	return notS3
}
