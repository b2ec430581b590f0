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

	"github.com/minio/minio-go/v7"

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

// messages has the message of each reason.
var messages = map[string]string{
	v1beta1.ReasonProbeSucceeded: "the bucket exists and can be read",
	v1beta1.ReasonBucketNotFound: "the endpoint has no bucket with the name in spec.bucketName; create it, or " +
		"correct the name",
	v1beta1.ReasonAccessDenied: "the endpoint denies access to the bucket with these credentials; grant them " +
		"access",
	v1beta1.ReasonInvalidCredentials: "the endpoint rejects the credentials in the Secret; correct its keys",
	v1beta1.ReasonRegionMismatch:     "the bucket is in another region than spec.region; correct spec.region",
	v1beta1.ReasonEndpointUnreachable: "the operator cannot connect to the endpoint; check its host, its port, and " +
		"network policies",
	v1beta1.ReasonEndpointForbidden: "the endpoint has an address that the operator may not connect to: loopback, " +
		"link-local, multicast, 100.64.0.0/10, the API server, a Service, or one that its flags deny; correct " +
		"spec.endpoint, or allow the address with the operator's flag --endpoint-allow-cidr",
	v1beta1.ReasonTLSVerificationFailed: "the endpoint's certificate cannot be verified, or the endpoint has no TLS " +
		"1.2 or later; correct the certificate, or name its authority in spec.caBundleRef",
	v1beta1.ReasonProbeTimeout: "the endpoint did not answer within spec.probe.timeoutSeconds; check the " +
		"service and the network",
	v1beta1.ReasonServerError: "the endpoint did not answer like an S3 service; check spec.endpoint and the " +
		"service",
	v1beta1.ReasonThrottled: "the endpoint limits the requests; raise spec.probe.periodSeconds, or the " +
		"limit of the service",
	v1beta1.ReasonBucketNotEmpty: "the bucket has objects, and the operator never empties it; remove the objects",
}

// servicesUnknown is the message for an address that is denied only while the Service ranges are
// unknown.
const servicesUnknown = "the endpoint has a private address, which could belong to a Service: the API server does " +
	"not list the Service ranges; " +
	"name them with the operator's flag --service-cidr, or allow the address with --endpoint-allow-cidr"

// Succeeded returns the verdict on a bucket that can be used.
func Succeeded() Verdict { return verdict(v1beta1.ReasonProbeSucceeded) }

func verdict(reason string) Verdict { return Verdict{reason, messages[reason]} }

// verdictOn returns the verdict on the error of a request; nil is a success. handshakeFailed is
// true if a TLS handshake began and did not complete.
func verdictOn(err error, handshakeFailed bool) Verdict {
	if err == nil {
		return Succeeded()
	}
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return verdictOnResponse(answer)
	}
	if forbidden, ok := errors.AsType[*ForbiddenError](err); ok && forbidden.ServicesUnknown {
		return Verdict{v1beta1.ReasonEndpointForbidden, servicesUnknown}
	}
	return verdict(reasonWithoutResponse(err, handshakeFailed))
}

// reasonWithoutResponse returns the reason for an error without a response.
func reasonWithoutResponse(err error, handshakeFailed bool) string {
	if _, ok := errors.AsType[*ForbiddenError](err); ok {
		return v1beta1.ReasonEndpointForbidden
	}
	if timeout, ok := errors.AsType[net.Error](err); (ok && timeout.Timeout()) ||
		errors.Is(err, context.DeadlineExceeded) {
		return v1beta1.ReasonProbeTimeout
	}
	if isTLSFailure(err) || errors.Is(err, http.ErrSchemeMismatch) {
		return v1beta1.ReasonTLSVerificationFailed
	}
	if _, ok := errors.AsType[*net.OpError](err); ok && !handshakeFailed {
		return v1beta1.ReasonEndpointUnreachable
	}
	if handshakeFailed && !isTruncated(err) {
		return v1beta1.ReasonTLSVerificationFailed
	}
	if isTruncated(err) {
		return v1beta1.ReasonEndpointUnreachable
	}
	return v1beta1.ReasonServerError
}

// isTLSFailure reports whether crypto/tls rejected the certificate, or the peer does not use TLS.
func isTLSFailure(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// codeReasons maps S3's error codes to reasons. For other codes the HTTP status decides.
var codeReasons = map[string]string{
	minio.AccessDenied:                   v1beta1.ReasonAccessDenied,
	"AllAccessDisabled":                  v1beta1.ReasonAccessDenied,
	"AccountProblem":                     v1beta1.ReasonAccessDenied,
	"InvalidAccessKeyId":                 v1beta1.ReasonInvalidCredentials,
	"SignatureDoesNotMatch":              v1beta1.ReasonInvalidCredentials,
	"ExpiredToken":                       v1beta1.ReasonInvalidCredentials,
	"InvalidToken":                       v1beta1.ReasonInvalidCredentials,
	"TokenRefreshRequired":               v1beta1.ReasonInvalidCredentials,
	"InvalidSecurity":                    v1beta1.ReasonInvalidCredentials,
	codeNotEmpty:                         v1beta1.ReasonBucketNotEmpty,
	minio.NoSuchBucket:                   v1beta1.ReasonBucketNotFound,
	"AuthorizationHeaderMalformed":       v1beta1.ReasonRegionMismatch,
	"PermanentRedirect":                  v1beta1.ReasonRegionMismatch,
	"TemporaryRedirect":                  v1beta1.ReasonRegionMismatch,
	minio.InvalidRegion:                  v1beta1.ReasonRegionMismatch,
	"IllegalLocationConstraintException": v1beta1.ReasonRegionMismatch,
	"InvalidLocationConstraint":          v1beta1.ReasonRegionMismatch,
	"SlowDown":                           v1beta1.ReasonThrottled,
	"RequestLimitExceeded":               v1beta1.ReasonThrottled,
	"Throttling":                         v1beta1.ReasonThrottled,
	"TooManyRequests":                    v1beta1.ReasonThrottled,
}

// verdictOnResponse returns the verdict on a response that is not a success.
func verdictOnResponse(answer minio.ErrorResponse) Verdict {
	status := answer.StatusCode
	redirect := status >= 300 && status < 400
	switch {
	case redirect && answer.Region != "":
		return verdict(v1beta1.ReasonRegionMismatch)
	case status == http.StatusNotFound && answer.Code == minio.NoSuchBucket,
		status == http.StatusConflict && answer.Code == codeNotEmpty,
		(status == http.StatusBadRequest || status == http.StatusForbidden || redirect) && codeReasons[answer.Code] != "":
		return verdict(codeReasons[answer.Code])
	case redirect:
		return Verdict{v1beta1.ReasonEndpointForbidden,
			"the endpoint redirects to another address, and the operator follows no redirects; name that address in " +
				"spec.endpoint"}
	case status == http.StatusUnauthorized:
		return verdict(v1beta1.ReasonInvalidCredentials)
	case status == http.StatusForbidden && answer.Code == "RequestTimeTooSkewed":
		return Verdict{v1beta1.ReasonServerError,
			"the clocks of the endpoint and of the operator's node differ too much; synchronize them"}
	case status == http.StatusForbidden:
		return verdict(v1beta1.ReasonAccessDenied)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return verdict(v1beta1.ReasonThrottled)
	default:
		return verdict(v1beta1.ReasonServerError)
	}
}

// isTruncated reports whether the connection ended before the response did.
func isTruncated(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}
