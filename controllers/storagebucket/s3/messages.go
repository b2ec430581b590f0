package s3

import "leasehold.dev/api/v1beta1"

// S3's error codes that are results, or that the requests depend on.
const (
	// CodeExists means that the bucket exists and belongs to another account.
	CodeExists = "BucketAlreadyExists"
	// CodeOwned means that the bucket exists and belongs to this account.
	CodeOwned = "BucketAlreadyOwnedByYou"

	codeNoBucket       = "NoSuchBucket"
	codeDenied         = "AccessDenied"
	codeNotEmpty       = "BucketNotEmpty"
	codeNoTags         = "NoSuchTagSet"
	codeMalformed      = "MalformedXML"
	codeNotImplemented = "NotImplemented"
)

// The verdicts. A message names the cause as far as the response shows it, and what helps.
var (
	succeeded = Verdict{v1beta1.ReasonProbeSucceeded, "the bucket exists and can be read"}
	missing   = Verdict{v1beta1.ReasonBucketNotFound, "the endpoint has no bucket with the name in spec.bucketName; " +
		"create it there, or create another StorageBucket with the right name"}
	denied = Verdict{v1beta1.ReasonAccessDenied, "the endpoint denies access to the bucket with these credentials; " +
		"grant them access"}
	deniedBefore = Verdict{v1beta1.ReasonAccessDenied, "the endpoint denies the request without an error of S3, as a " +
		"proxy or firewall before the service does; let the operator's requests pass, or correct spec.endpoint"}
	badKeys      = Verdict{v1beta1.ReasonInvalidCredentials, "the endpoint rejects the credentials in the Secret; correct its keys"}
	badSignature = Verdict{v1beta1.ReasonInvalidCredentials, "the endpoint computes another signature of the request; " +
		"correct the secret key in the Secret, or the proxy that changes the Host header or the path"}
	expiredToken = Verdict{v1beta1.ReasonInvalidCredentials, "the session token in the Secret has expired or is not " +
		"valid; renew it"}

	otherRegion = Verdict{v1beta1.ReasonRegionMismatch, "the bucket is in another region than spec.region; correct " +
		"spec.region, and spec.endpoint if it is that of a region"}
	otherRegionOrEndpoint = Verdict{v1beta1.ReasonRegionMismatch, "the bucket is in another region than spec.region, or " +
		"spec.endpoint is not the endpoint of its region; correct them"}
	noSuchRegion = Verdict{v1beta1.ReasonRegionMismatch, "the endpoint creates no buckets in spec.region; name the region " +
		"of the endpoint"}
	redirected = Verdict{v1beta1.ReasonEndpointForbidden, "the endpoint redirects to another address, and the operator " +
		"follows no redirects; name that address, such as the endpoint of the region, in spec.endpoint"}
	forbidden = Verdict{v1beta1.ReasonEndpointForbidden, "the endpoint has an address that the operator may not connect " +
		"to: loopback, link-local, multicast, 100.64.0.0/10, a metadata service, the operator, the API server, or one that " +
		"its flags deny; correct spec.endpoint, or allow the address with the operator's flag --endpoint-allow-cidr"}

	unreachable = Verdict{v1beta1.ReasonEndpointUnreachable, "the operator cannot connect to the endpoint; check its " +
		"host, its port, and network policies"}
	noName = Verdict{v1beta1.ReasonEndpointUnreachable, "the name of the endpoint's host cannot be resolved; correct it, " +
		"or check the DNS of the cluster"}
	closed = Verdict{v1beta1.ReasonEndpointUnreachable, "the endpoint closes the connection before it answers; check the " +
		"service, its port, and whether it expects TLS"}
	timedOut = Verdict{v1beta1.ReasonProbeTimeout, "the endpoint did not answer within spec.probe.timeoutSeconds, or " +
		"15 s; check the service and the network"}

	wrongHost = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate is not for the host in " +
		"spec.endpoint; correct the endpoint or the certificate"}
	wrongVirtualHost = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate is not for the bucket's " +
		"name before the host in spec.endpoint; correct the certificate, or set spec.addressingStyle to Path"}
	expired = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate, or one that signed it, has " +
		"expired or is not valid yet; renew it"}
	unknownAuthority = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate is signed by an " +
		"authority that is not trusted, or its chain is incomplete; name the authority in spec.caBundleRef"}
	notInBundle = Verdict{v1beta1.ReasonTLSVerificationFailed, "the authority that signed the endpoint's certificate is " +
		"not in the ConfigMap of spec.caBundleRef, or its chain is incomplete; add the authority"}
	noTLS = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint does not use TLS at this port; correct the port, " +
		"or name it with http:// in spec.endpoint"}
	badCertificate = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint's certificate cannot be verified, as it " +
		"violates a rule for certificates; issue another one"}
	badHandshake = Verdict{v1beta1.ReasonTLSVerificationFailed, "the endpoint refuses the TLS handshake, or it breaks " +
		"off: it has no TLS 1.2 or later, requires a certificate of clients, or sends more than 64 KiB of certificates"}

	notS3 = Verdict{v1beta1.ReasonServerError, "the endpoint did not answer like an S3 service; check the scheme, the " +
		"host and the port of spec.endpoint, and the service"}
	unavailable = Verdict{v1beta1.ReasonServerError, "the service is not available: it, or a balancer before it, answers " +
		"with 502, 503 or 504; check the service"}
	failing = Verdict{v1beta1.ReasonServerError, "the service, or a proxy before it, reports an error of its own; check the service"}
	refused = Verdict{v1beta1.ReasonServerError, "the service refuses the request with an error of S3 that the operator " +
		"does not know; check the spec, and the log of the service"}
	skewed = Verdict{v1beta1.ReasonServerError, "the clocks of the endpoint and of the operator's node differ too much; " +
		"synchronize them"}
	badName = Verdict{v1beta1.ReasonServerError, "the service does not accept the name in spec.bucketName; create another " +
		"StorageBucket with a name that it accepts"}
	busy = Verdict{v1beta1.ReasonServerError, "the service still processes another change of a bucket with this name, " +
		"such as its deletion; the operator tries again"}
	throttled = Verdict{v1beta1.ReasonThrottled, "the endpoint limits the requests; raise spec.probe.periodSeconds, or the " +
		"limit of the service"}
	taken = Verdict{v1beta1.ReasonBucketConflict, "another account has a bucket with the name in spec.bucketName; create " +
		"another StorageBucket with another name"}
	tooMany = Verdict{v1beta1.ReasonQuotaExceeded, "the account has as many buckets as the service permits; remove one, or " +
		"raise the limit of the service"}

	hasObjects = Verdict{v1beta1.ReasonBucketNotEmpty, "the bucket has objects, and the operator never empties it; remove " +
		"the objects"}
	hasVersions = Verdict{v1beta1.ReasonBucketNotEmpty, "the bucket lists no objects, and the service reports that it is " +
		"not empty: old versions, delete markers or unfinished uploads remain; remove them"}
	noTags = Verdict{v1beta1.ReasonTagsNotSupported, "the service does not support tags of buckets, by which the operator " +
		"recognizes those that it created; observe a bucket there by a StorageBucket with managementPolicy Observe"}
)

// byCode has the verdicts on S3's error codes. For other codes the HTTP status decides.
var byCode = map[string]Verdict{
	codeNoBucket:                         missing,
	codeNotEmpty:                         hasVersions,
	codeDenied:                           denied,
	"AllAccessDisabled":                  denied,
	"AccountProblem":                     denied,
	"InvalidAccessKeyId":                 badKeys,
	"InvalidSecurity":                    badKeys,
	"SignatureDoesNotMatch":              badSignature,
	"ExpiredToken":                       expiredToken,
	"InvalidToken":                       expiredToken,
	"TokenRefreshRequired":               expiredToken,
	"AuthorizationHeaderMalformed":       otherRegion,
	"PermanentRedirect":                  otherRegion,
	"TemporaryRedirect":                  otherRegion,
	"InvalidRegion":                      otherRegion,
	"IllegalLocationConstraintException": noSuchRegion,
	"InvalidLocationConstraint":          noSuchRegion,
	"SlowDown":                           throttled,
	"SlowDownRead":                       throttled,
	"SlowDownWrite":                      throttled,
	"RequestLimitExceeded":               throttled,
	"Throttling":                         throttled,
	"ThrottlingException":                throttled,
	"TooManyRequests":                    throttled,
	"RequestTimeTooSkewed":               skewed,
	"InvalidBucketName":                  badName,
	"OperationAborted":                   busy,
	"TooManyBuckets":                     tooMany,
}
