// SPDX-License-Identifier: Apache-2.0

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
	"strings"
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
		"create the bucket there, or create another StorageBucket with the right bucketName"}
	// Taken is the verdict on the creation of a bucket that another account has.
	Taken = Verdict{v1beta1.ReasonBucketConflict, "another account has a bucket with the name in spec.bucketName; " +
		"create another StorageBucket with another bucketName"}
	// Owned is the verdict on the creation of a bucket that this account has.
	Owned  = Verdict{v1beta1.ReasonServerError, "a bucket with this name was just created; the operator will retry"}
	noTags = Verdict{v1beta1.ReasonTagsNotSupported, "the service does not support bucket tags, by which the " +
		"operator recognizes its buckets; create a StorageBucket with managementPolicy Observe instead"}
	tooMany = Verdict{v1beta1.ReasonQuotaExceeded, "the account has reached its limit of buckets; delete a " +
		"bucket or raise the limit"}
	hasObjects = Verdict{v1beta1.ReasonBucketNotEmpty, "the bucket contains objects; delete them, because the " +
		"operator never does"}
	hasMore = Verdict{v1beta1.ReasonBucketNotEmpty, "the bucket lists no objects but is not empty; delete its " +
		"old object versions, delete markers and incomplete multipart uploads"}

	// Denied is the verdict on a bucket that the credentials may not use.
	Denied = Verdict{v1beta1.ReasonAccessDenied, "the credentials have no access to the bucket; grant them s3:ListBucket"}
	// DeniedName is the same of a bucket that the operator has not created: names can be global.
	DeniedName = Verdict{v1beta1.ReasonAccessDenied, "the credentials have no access to a bucket with this name, " +
		"which may belong to another account; grant them s3:ListBucket, or create another StorageBucket with another " +
		"bucketName"}
	deniedTags = Verdict{v1beta1.ReasonAccessDenied, "the credentials have no access to the bucket's tags, by which " +
		"the operator recognizes its buckets; grant them s3:GetBucketTagging and s3:PutBucketTagging"}
	deniedCreation = Verdict{v1beta1.ReasonAccessDenied, "the credentials do not allow creating the bucket with a tag; " +
		"grant them s3:CreateBucket and, on AWS, s3:TagResource; a policy of the organization may deny it, too"}
	deniedRemoval = Verdict{v1beta1.ReasonAccessDenied, "the credentials do not allow deleting the bucket; grant them " +
		"s3:DeleteBucket"}
	deniedBefore = Verdict{v1beta1.ReasonAccessDenied, "the endpoint denies the request without an S3 error, as a " +
		"proxy or firewall in front of the service does; allow the operator's requests there, or correct spec.endpoint"}
	badKeys = Verdict{v1beta1.ReasonInvalidCredentials, "the endpoint rejects the keys in the Secret; correct " +
		"the keys"}
	expiredToken = Verdict{v1beta1.ReasonInvalidCredentials, "the session token has expired or is not valid; renew " +
		"the token"}
	badHeader = Verdict{v1beta1.ReasonInvalidCredentials, "the endpoint cannot parse the credentials of the " +
		"request; correct spec.region or the access key in the Secret, for example if it is swapped with the secret " +
		"key"}
	account = Verdict{v1beta1.ReasonAccessDenied, "the service has suspended, disabled or not activated the account or " +
		"the bucket, and responds with %s; check the console of the service, or contact its support"}
	badSignature = Verdict{v1beta1.ReasonInvalidCredentials, "the endpoint computes a different signature for the " +
		"request; correct the secret key in the Secret, or the proxy that changes the Host header or the path"}
	otherRegion = Verdict{v1beta1.ReasonRegionMismatch, "spec.region is not the region of the bucket or of " +
		"spec.endpoint; correct spec.region"}
	otherEndpoint = Verdict{v1beta1.ReasonRegionMismatch, "the bucket is at another endpoint of the service; " +
		"correct spec.endpoint"}
	noSuchRegion = Verdict{v1beta1.ReasonRegionMismatch, "the endpoint does not create buckets in spec.region; " +
		"correct spec.region"}
	redirected = Verdict{v1beta1.ReasonEndpointForbidden, "the endpoint redirects to another address, and the " +
		"operator does not follow redirects; set spec.endpoint to that address, for example to the endpoint of the " +
		"region"}
	forbidden = Verdict{v1beta1.ReasonEndpointForbidden, "the endpoint has an address that the operator must not " +
		"connect to: loopback, link-local, multicast, 100.64.0.0/10, a metadata service, the operator, the API server, or " +
		"an address of the operator's flag --endpoint-deny-cidr; correct spec.endpoint, or allow the address with the " +
		"operator's flag --endpoint-allow-cidr, unless --endpoint-deny-cidr contains the address"}

	unreachable = Verdict{v1beta1.ReasonEndpointUnreachable, "the operator cannot connect to the endpoint; check " +
		"the host and port in spec.endpoint, and network policies"}
	noName = Verdict{v1beta1.ReasonEndpointUnreachable, "the host in spec.endpoint has no address; correct " +
		"spec.endpoint or the DNS"}
	closed = Verdict{v1beta1.ReasonEndpointUnreachable, "the endpoint closes the connection; check the port in " +
		"spec.endpoint, and whether http:// or https:// is right"}
	timedOut = Verdict{v1beta1.ReasonProbeTimeout, "the endpoint did not respond within spec.probe.timeoutSeconds; " +
		"check the service"}
	wrongHost = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate is not valid for the " +
		"requested host, which is the host in spec.endpoint or, if spec.addressingStyle is VirtualHost, the bucket name, a dot " +
		"and that host; correct spec.endpoint, spec.addressingStyle or the certificate"}
	expired = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate, or one that signed it, has " +
		"expired or is not valid yet; renew that certificate"}
	unknownAuthority = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate is signed by an " +
		"authority that is not trusted, or its chain is incomplete; add the authority, in valid PEM, to the ConfigMap of " +
		"spec.caBundleRef"}
	badCertificate = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate is not valid; replace " +
		"the certificate"}
	noTLS = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint does not use TLS on this port; " +
		"correct the port, or use http:// in spec.endpoint"}
	badHandshake = Verdict{v1beta1.ReasonTLSVerificationFailed, "the TLS handshake with the endpoint failed: the " +
		"endpoint does not support TLS 1.2 or later, requires a client certificate, or sends more than 32 KiB of " +
		"certificates"}

	notS3 = Verdict{v1beta1.ReasonServerError, "the response is not an S3 response; check spec.endpoint and " +
		"the service"}
	unavailable = Verdict{v1beta1.ReasonServerError, "the service, or a load balancer in front of it, is not " +
		"available; check both"}
	failing = Verdict{v1beta1.ReasonServerError, "the service, or a proxy in front of it, reports an internal " +
		"error; check both"}
	refused = Verdict{v1beta1.ReasonServerError, "the service refuses the request with %s; see the " +
		"documentation of the service"}
	needsHost = Verdict{v1beta1.ReasonServerError, "the service requires the bucket's name in the host name; set " +
		"spec.addressingStyle to VirtualHost"}
	badHost = Verdict{v1beta1.ReasonServerError, "the service does not recognize the host in the " +
		"request; correct spec.endpoint"}
	skewed = Verdict{v1beta1.ReasonServerError, "the clocks of the service and of the node differ; synchronize " +
		"the clocks"}
	badName = Verdict{v1beta1.ReasonServerError, "the service refuses spec.bucketName; create another " +
		"StorageBucket with another bucketName"}
	busy = Verdict{v1beta1.ReasonServerError, "the service is still changing a bucket with this name; the " +
		"operator will retry"}
	throttled = Verdict{v1beta1.ReasonThrottled, "the service throttles requests; raise spec.probe.periodSeconds or " +
		"the limit of the service"}
)

// byCode has the error codes that messages may show: any other one is text of the server. They are those
// of AWS, MinIO, Ceph, Garage, R2, OSS, COS and OBS. The verdict on one that names no cause is empty.
var byCode = table(map[Verdict]string{
	missing: "NoSuchBucket", hasMore: "BucketNotEmpty", Taken: "BucketAlreadyExists", Owned: "BucketAlreadyOwnedByYou",
	tooMany: "TooManyBuckets", busy: "OperationAborted", Denied: "AccessDenied", badName: "InvalidBucketName",
	badKeys:      "InvalidAccessKeyId InvalidClientTokenId InvalidSecurity Unauthorized UnrecognizedClientException",
	badSignature: "SignatureDoesNotMatch", badHeader: "AuthorizationHeaderMalformed",
	expiredToken: "ExpiredToken InvalidToken TokenRefreshRequired AccessKeyIdAndSecurityTokenNotMatch " +
		"InvalidSecurityToken SecurityTokenExpired",
	account: "AbnormalBucketOwnerStatus AccountProblem AllAccessDisabled BucketDisable DeregisterUserId FrozenUserId " +
		"InDebt InDebtOverdue NotEntitled NotSignedUp UserDisable UserSuspended",
	otherRegion:  "InvalidRegion PermanentRedirect TemporaryRedirect",
	noSuchRegion: "IllegalLocationConstraintException InvalidLocationConstraint",
	needsHost:    "PathStyleDomainForbidden SecondLevelDomainForbidden VirtualHostDomainRequired",
	badHost:      "BadDomainName NonStandardHostForbidden", skewed: "ExpiredRequest RequestTimeTooSkewed",
	throttled: "QpsLimitExceeded RequestLimitExceeded SlowDown SlowDownRead SlowDownWrite Throttling " +
		"ThrottlingException TooManyRequests",
	{}: "AccessForbidden AuthorizationQueryParametersError BadDigest BadRequest BucketNotBelongTo " +
		"CredentialsNotSupported InvalidArgument InvalidBucketState InvalidDigest InvalidPayer InvalidRequest InvalidTag " +
		"InvalidURI LimitExceeded MalformedXML MethodNotAllowed MissingSecurityHeader NoSuchKey NoSuchUser NotImplemented " +
		"QuotaExceeded RequestTimeout XAmzContentSHA256Mismatch",
})

func table(codes map[Verdict]string) map[string]Verdict {
	all := map[string]Verdict{}
	for v, list := range codes {
		for code := range strings.FieldsSeq(list) {
			all[code] = v
		}
	}
	return all
}

// byStatus has the verdicts on the HTTP status for other codes. A 403 with an unknown one has many causes.
var byStatus = map[int]Verdict{
	http.StatusUnauthorized: badKeys, http.StatusTooManyRequests: throttled,
	http.StatusBadGateway: unavailable, http.StatusServiceUnavailable: unavailable, http.StatusGatewayTimeout: unavailable,
}

// naming fills the HTTP status into a message, and the error code if it is in byCode.
func (v Verdict) naming(a answer) Verdict {
	code := "an unknown error code"
	if _, isKnown := byCode[a.code]; isKnown {
		code = "the error code " + a.code
	}
	v.Message = strings.Replace(v.Message, "%s", fmt.Sprintf("HTTP status %d and %s", a.status, code), 1)
	return v
}

// verdictOn returns the verdict on a response that is not a success.
func verdictOn(a answer, region string) Verdict {
	known, isElsewhere := byCode[a.code], a.region != "" && a.region != region
	switch s := a.status; {
	case s >= 300 && s < 400 && (isElsewhere || a.region == "" && known == otherRegion), known == badHeader && isElsewhere:
		return otherRegion
	case s >= 300 && s < 400:
		return redirected
	case known == Denied && a.namesEndpoint:
		return otherEndpoint
	// The operator creates a bucket that does not exist, so a code alone is no proof.
	case s >= 400 && known.Reason != "" && (!known.Missing() || s == http.StatusNotFound):
		return known.naming(a)
	case a.code == "" && (s == http.StatusUnauthorized || s == http.StatusForbidden):
		return deniedBefore
	case byStatus[s] != Verdict{}:
		return byStatus[s]
	case s >= 500:
		return failing
	case s >= 400 && a.code != "":
		return refused.naming(a)
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
