// SPDX-License-Identifier: Apache-2.0

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

// Verdict is the result of a request, as a reason and a message of the API. Both come from the
// tables below: a message names the cause as far as the response shows it, and what helps.
type Verdict struct {
	// Reason is one of the reasons of a StorageBucket's Ready condition.
	Reason, Message string
}

// OK reports whether the bucket can be used.
func (v Verdict) OK() bool { return v.Reason == v1beta1.ReasonProbeSucceeded }

// Missing reports whether the bucket does not exist.
func (v Verdict) Missing() bool { return v.Reason == v1beta1.ReasonBucketNotFound }

// Error is the error of a request, with its verdict.
type Error struct{ Verdict }

func (e Error) Error() string { return e.Reason + ": " + e.Message }

var (
	// Succeeded is the verdict on a bucket that can be used.
	Succeeded = Verdict{v1beta1.ReasonProbeSucceeded, "the bucket exists and can be read"}
	missing   = Verdict{v1beta1.ReasonBucketNotFound, "the endpoint has no bucket with the name in spec.bucketName; " +
		"create it there, or create another StorageBucket with the right name"}
	// Taken is the verdict on the creation of a bucket that another account has.
	Taken = Verdict{v1beta1.ReasonBucketConflict, "another account has a bucket with the name in spec.bucketName; " +
		"create another StorageBucket with another name"}
	// Owned is the verdict on the creation of a bucket that this account has.
	Owned  = Verdict{v1beta1.ReasonServerError, "a bucket of this name has just been created; the operator tries again"}
	noTags = Verdict{v1beta1.ReasonTagsNotSupported, "the service does not support tags of buckets, by which the " +
		"operator recognizes those that it created; observe a bucket there with managementPolicy Observe"}
	tooMany    = Verdict{v1beta1.ReasonQuotaExceeded, "the account may have no more buckets; remove one or raise the limit"}
	hasObjects = Verdict{v1beta1.ReasonBucketNotEmpty, "the bucket has objects; remove them, as the operator never does"}
	hasMore    = Verdict{v1beta1.ReasonBucketNotEmpty, "the bucket lists no objects and is not empty: old versions, " +
		"delete markers or unfinished uploads remain; remove them"}

	denied     = Verdict{v1beta1.ReasonAccessDenied, "the credentials have no access to the bucket; grant it to them"}
	deniedTags = Verdict{v1beta1.ReasonAccessDenied, "the credentials have no access to the bucket's tags, by which " +
		"the operator recognizes its buckets; grant s3:GetBucketTagging and s3:PutBucketTagging to them"}
	deniedBefore = Verdict{v1beta1.ReasonAccessDenied, "the endpoint denies the request without an error of S3, as a " +
		"proxy or firewall before the service does; let the operator's requests pass, or correct spec.endpoint"}
	badKeys      = Verdict{v1beta1.ReasonInvalidCredentials, "the endpoint rejects the keys in the Secret; correct them"}
	expiredToken = Verdict{v1beta1.ReasonInvalidCredentials, "the session token has expired or is not valid; renew it"}
	badSignature = Verdict{v1beta1.ReasonInvalidCredentials, "the endpoint computes another signature of the request; " +
		"correct the secret key in the Secret, or the proxy that changes the Host header or the path"}
	otherRegion  = Verdict{v1beta1.ReasonRegionMismatch, "the bucket, or spec.endpoint, is not in spec.region; correct it"}
	noSuchRegion = Verdict{v1beta1.ReasonRegionMismatch, "the endpoint creates no buckets in spec.region; correct it"}
	redirected   = Verdict{v1beta1.ReasonEndpointForbidden, "the endpoint redirects to another address, and the " +
		"operator follows no redirects; name that address, such as the endpoint of the region, in spec.endpoint"}
	forbidden = Verdict{v1beta1.ReasonEndpointForbidden, "the endpoint has an address that the operator may not " +
		"connect to: loopback, link-local, multicast, 100.64.0.0/10, a metadata service, the operator, the API server, or " +
		"one that its flags deny; correct spec.endpoint, or allow the address with the flag --endpoint-allow-cidr"}

	unreachable = Verdict{v1beta1.ReasonEndpointUnreachable, "the operator cannot connect to the endpoint; check its " +
		"host, its port, and network policies"}
	noName    = Verdict{v1beta1.ReasonEndpointUnreachable, "the endpoint's host has no address; correct it, or the DNS"}
	closed    = Verdict{v1beta1.ReasonEndpointUnreachable, "the endpoint closes the connection; check its port, and TLS"}
	timedOut  = Verdict{v1beta1.ReasonProbeTimeout, "no answer came in spec.probe.timeoutSeconds; check the service"}
	wrongHost = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate is not for the host in " +
		"spec.endpoint, with VirtualHost after the bucket's name; correct the endpoint, its style or the certificate"}
	expired = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate, or one that signed it, has " +
		"expired or is not valid yet; renew it"}
	unknownAuthority = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate is signed by an " +
		"authority that is not trusted, or its chain is incomplete; add the authority, in valid PEM, to the ConfigMap of " +
		"spec.caBundleRef"}
	badCertificate = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate violates a rule; replace it"}
	noTLS          = Verdict{v1beta1.ReasonTLSVerificationFailed, "the port has no TLS; correct it, or set http://"}
	badHandshake   = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint refuses the TLS handshake, or it breaks " +
		"off: it has no TLS 1.2 or later, requires a certificate of clients, or sends more than 64 KiB of certificates"}

	notS3       = Verdict{v1beta1.ReasonServerError, "the answer is not one of S3; check spec.endpoint and the service"}
	unavailable = Verdict{v1beta1.ReasonServerError, "the service, or a balancer before it, is not available; check them"}
	failing     = Verdict{v1beta1.ReasonServerError, "the service, or a proxy before it, reports its own error; check it"}
	refused     = Verdict{v1beta1.ReasonServerError, "the service refuses the request for an unknown reason; see its log"}
	skewed      = Verdict{v1beta1.ReasonServerError, "the clocks of the service and of the node differ; synchronize them"}
	badName     = Verdict{v1beta1.ReasonServerError, "the service refuses spec.bucketName; create another StorageBucket"}
	busy        = Verdict{v1beta1.ReasonServerError, "the service still changes a bucket of this name; the operator tries again"}
	throttled   = Verdict{v1beta1.ReasonThrottled, "the service limits requests; raise periodSeconds or its limit"}
)

// byCode and byStatus have the verdicts on S3's error codes and, for other codes, on the HTTP status.
var byCode = map[string]Verdict{
	"NoSuchBucket": missing, "BucketNotEmpty": hasMore, "BucketAlreadyExists": Taken, "TooManyBuckets": tooMany,
	"BucketAlreadyOwnedByYou": Owned, "OperationAborted": busy, "AccessDenied": denied, "InvalidBucketName": badName,
	"InvalidAccessKeyId": badKeys, "InvalidSecurity": badKeys, "SignatureDoesNotMatch": badSignature,
	"ExpiredToken": expiredToken, "InvalidToken": expiredToken, "TokenRefreshRequired": expiredToken,
	"AuthorizationHeaderMalformed": otherRegion, "PermanentRedirect": otherRegion, "TemporaryRedirect": otherRegion,
	"InvalidRegion": otherRegion, "InvalidLocationConstraint": noSuchRegion,
	"IllegalLocationConstraintException": noSuchRegion, "RequestTimeTooSkewed": skewed,
	"SlowDown": throttled, "SlowDownRead": throttled, "SlowDownWrite": throttled, "RequestLimitExceeded": throttled,
	"Throttling": throttled, "ThrottlingException": throttled,
}

var byStatus = map[int]Verdict{
	http.StatusUnauthorized: badKeys, http.StatusForbidden: denied, http.StatusTooManyRequests: throttled,
	http.StatusBadGateway: unavailable, http.StatusServiceUnavailable: unavailable, http.StatusGatewayTimeout: unavailable,
}

// verdictOn returns the verdict on a response that is not a success.
func verdictOn(a answer, region string) Verdict {
	byCode, isKnown := byCode[a.code]
	switch s := a.status; {
	case s >= 300 && s < 400 && a.region != region && (a.region != "" || byCode == otherRegion):
		return otherRegion
	case s >= 300 && s < 400:
		return redirected
	// The operator creates a bucket that does not exist, so a code alone is no proof.
	case s >= 400 && isKnown && (!byCode.Missing() || s == http.StatusNotFound):
		return byCode
	case a.code == "" && (s == http.StatusUnauthorized || s == http.StatusForbidden):
		return deniedBefore
	case byStatus[s] != Verdict{}:
		return byStatus[s]
	case s >= 500:
		return failing
	case s >= 400 && a.code != "":
		return refused
	}
	return notS3
}

// verdictOnError returns the verdict on a request without a response.
func verdictOnError(err error) Verdict {
	timeout, isNet := errors.AsType[net.Error](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case errors.Is(err, errForbidden):
		return forbidden
	case isNet && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return timedOut
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return closed
	case is[x509.HostnameError](err):
		return wrongHost
	case isInvalid && invalid.Reason == x509.Expired:
		return expired
	case is[x509.UnknownAuthorityError](err):
		return unknownAuthority
	case is[tls.RecordHeaderError](err):
		return noTLS
	case is[*tls.CertificateVerificationError](err):
		return badCertificate
	case errors.Is(err, errHandshake):
		return badHandshake
	case is[*net.DNSError](err):
		return noName
	case is[*net.OpError](err):
		return unreachable
	}
	return notS3
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
