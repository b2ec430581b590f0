package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3 requires it with tags; nothing is kept safe by it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7/pkg/signer"
)

// The query parameters of requests.
const (
	// listOneKey lists at most one key of the bucket.
	listOneKey = "list-type=2&max-keys=1"
	tagging    = "tagging"
)

// Error is the error of a request, with its verdict.
type Error struct {
	Verdict Verdict
	// Code is S3's error code; empty if there was none.
	Code string
}

func (e *Error) Error() string { return e.Verdict.Reason + ": " + e.Verdict.Message }

// VerdictOf returns the verdict of an error of this package; nil if it has none.
func VerdictOf(err error) *Verdict {
	if e, ok := errors.AsType[*Error](err); ok {
		return &e.Verdict
	}
	return nil
}

// Code returns the S3 error code of an error of this package; empty if it has none.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// answer is a response that is not a success.
type answer struct {
	status int
	code   string // of S3; empty if the body is not S3's XML, as that of a proxy or a web page
	region string // of the bucket; empty if the service does not name it
}

func (a *answer) Error() string { return fmt.Sprintf("status %d", a.status) }

// errNoS3 is returned for a success without the body that S3 has.
var errNoS3 = errors.New("the body is not S3's")

// Probe checks whether the bucket can be used. A HEAD response of 200 proves it only with a header
// that S3 has, since a web page answers 200 to everything. Otherwise the list of one key decides,
// whose response has S3's XML, also for an error.
func (c *Client) Probe(ctx context.Context) Verdict {
	region, head := c.head(ctx)
	refused, responded := errors.AsType[*answer](head)
	isClear := head == nil && region != ""
	if head != nil {
		isClear = !responded || !isAmbiguous(refused)
	}
	if isClear {
		return c.verdictOn(head)
	}
	_, err := c.list(ctx)
	if listed, ok := errors.AsType[*answer](err); ok && head == nil && listed.code == codeDenied {
		return Succeeded() // S3 permits to probe the bucket, and not to list it
	}
	return c.verdictOn(err)
}

// isAmbiguous reports whether a response to HEAD has several possible causes, which only a body tells
// apart. A 404 may come from a load balancer without an S3 server, and a 503 means busy or broken.
func isAmbiguous(a *answer) bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotImplemented, http.StatusServiceUnavailable:
		return true
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return a.region == ""
	}
	return false
}

// head sends a HEAD request and returns the header that names the region of a bucket.
func (c *Client) head(ctx context.Context) (region string, err error) {
	_, region, err = c.send(ctx, http.MethodHead, "", nil)
	return region, err
}

// list lists at most one key and returns how many there are. A success has S3's XML.
func (c *Client) list(ctx context.Context) (keys int, err error) {
	body, _, err := c.send(ctx, http.MethodGet, listOneKey, nil)
	if err != nil {
		return 0, err
	}
	var listed struct {
		XMLName  xml.Name   `xml:"ListBucketResult"`
		Contents []struct{} `xml:"Contents"`
	}
	if xml.Unmarshal(body, &listed) != nil {
		return 0, errNoS3
	}
	return len(listed.Contents), nil
}

// createBody is the body of CreateBucket.
type createBody struct {
	XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CreateBucketConfiguration"`
	Location string   `xml:"LocationConstraint,omitempty"`
	Tags     *tagSet  `xml:"Tags,omitempty"`
}

// defaultRegion is the region that S3 does not accept in the body of CreateBucket.
const defaultRegion = "us-east-1"

// Create creates the bucket with the tag in one request. For a server that rejects tags in this
// request it creates the bucket without them. A server may also ignore them, or report success for
// a bucket that exists, so the caller must read the tag afterwards. The error is an *Error.
func (c *Client) Create(ctx context.Context, key, value string) error {
	body := createBody{}
	if c.target.Region != defaultRegion {
		body.Location = c.target.Region
	}
	tagged := body
	tagged.Tags = &tagSet{Tags: []bucketTag{{key, value}}}
	err := c.put(ctx, "", tagged)
	if code := Code(err); code != codeMalformed && code != codeNotImplemented {
		return err
	}
	if body.Location == "" {
		return c.put(ctx, "", nil)
	}
	return c.put(ctx, "", body)
}

// Remove removes an empty bucket. For a bucket with objects it returns an *Error. Some servers
// would remove the objects too, so Remove lists the bucket before. A missing bucket is a success.
func (c *Client) Remove(ctx context.Context) error {
	keys, err := c.list(ctx)
	if err == nil && keys > 0 {
		return &Error{Verdict: hasObjects, Code: codeNotEmpty}
	}
	if err == nil {
		_, _, err = c.send(ctx, http.MethodDelete, "", nil)
	}
	if err = c.failed(err); Code(err) == codeNoBucket {
		return nil
	}
	return err
}

// put sends a PUT request with a body of XML; nil for none. The error is an *Error.
func (c *Client) put(ctx context.Context, query string, body any) error {
	var payload []byte
	if body != nil {
		var err error
		if payload, err = xml.Marshal(body); err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
	}
	_, _, err := c.send(ctx, http.MethodPut, query, payload)
	return c.failed(err)
}

// failed returns an error of a request as an *Error; nil for nil.
func (c *Client) failed(err error) error {
	if err == nil {
		return nil
	}
	code := ""
	if a, ok := errors.AsType[*answer](err); ok {
		code = a.code
	}
	return &Error{Verdict: c.verdictOn(err), Code: code}
}

// send sends one request about the bucket. It returns at most maxBody bytes of the response, and the
// region that it names. For a response that is not a success it returns an *answer.
func (c *Client) send(ctx context.Context, method, query string, payload []byte) (body []byte, region string,
	err error) {
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	location := c.location
	location.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, method, location.String(), bytes.NewReader(payload))
	if err != nil {
		return nil, "", fmt.Errorf("creating the request: %w", err)
	}
	request.Host = c.host
	sum := sha256.Sum256(payload)
	request.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	if len(payload) > 0 {
		short := md5.Sum(payload) //nolint:gosec // as above
		request.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(short[:]))
	}
	signed := signer.SignV4(*request, c.credentials.AccessKeyID, c.credentials.SecretAccessKey, c.credentials.SessionToken,
		c.target.Region)
	response, err := c.http.Do(signed)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }() // the response has been read
	if body, err = io.ReadAll(io.LimitReader(response.Body, maxBody)); err != nil {
		return nil, "", fmt.Errorf("reading the response: %w", err)
	}
	region = response.Header.Get("X-Amz-Bucket-Region")
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNoContent && method != http.MethodHead {
		return body, region, nil
	}
	return nil, region, answerOf(response.StatusCode, body, region)
}

// answerOf returns the answer in a response. A service names the region in a header or in the XML.
func answerOf(status int, body []byte, region string) *answer {
	var read struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Region  string
	}
	a := &answer{status: status, region: region}
	if xml.Unmarshal(body, &read) == nil && read.Code != "" {
		a.code = read.Code
		if region == "" {
			a.region = read.Region
		}
	}
	return a
}
