// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // S3 requires it with tags; nothing is kept safe by it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7/pkg/signer"
)

const (
	listOneKey     = "list-type=2&max-keys=1"
	listOneVersion = "max-keys=1&versions"
	tagging        = "tagging"
	defaultRegion  = "us-east-1" // S3 does not accept it in the body of CreateBucket
)

// answer is the response to a request, or why there is none.
type answer struct {
	verdict Verdict
	status  int    // 0 without a response
	code    string // of S3; empty if the body is not S3's XML, as that of a proxy or a web page
	region  string // of the bucket, if the service names it
	body    []byte
	// namesEndpoint is true if an error names another endpoint, as those of OSS and AWS do.
	namesEndpoint bool
}

func (a answer) err() error {
	if a.verdict.OK() {
		return nil
	}
	return Error{a.verdict}
}

// isAmbiguous reports whether only a body tells apart the causes of a response to HEAD. A web page
// answers 200 to everything, without a header of S3. A 404 may come from a load balancer without an
// S3 server, and a 503 means busy or broken.
func (a answer) isAmbiguous() bool {
	switch a.status {
	case http.StatusOK, http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return a.region == ""
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotImplemented, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// Probe checks whether the bucket can be used. Where the response to HEAD is ambiguous, the list of
// one key decides, whose response has S3's XML.
func (c *Client) Probe(ctx context.Context) Verdict {
	head := c.send(ctx, http.MethodHead, "", nil)
	if !head.isAmbiguous() {
		return head.verdict
	}
	_, listed := c.list(ctx, listOneKey)
	if head.verdict.OK() && listed.code == "AccessDenied" {
		return Succeeded // S3 permits to probe the bucket, and not to list it
	}
	return listed.verdict
}

// list lists at most one key or version, and returns how many there are. A success has S3's XML.
func (c *Client) list(ctx context.Context, query string) (found int, a answer) {
	a = c.send(ctx, http.MethodGet, query, nil)
	var listed struct {
		XMLName                         xml.Name
		Contents, Version, DeleteMarker []struct{}
	}
	if a.verdict.OK() && (xml.Unmarshal(a.body, &listed) != nil || !strings.HasPrefix(listed.XMLName.Local, "List")) {
		a.verdict = notS3
	}
	return len(listed.Contents) + len(listed.Version) + len(listed.DeleteMarker), a
}

// bucketTag is a tag of a bucket. minio-go's parser refuses what is not ASCII, and S3 permits it.
type bucketTag struct{ Key, Value string }

type tagSet struct {
	Tags []bucketTag `xml:"Tag"`
}

type taggingBody struct {
	XMLName xml.Name `xml:"Tagging"`
	TagSet  tagSet
}

type createBody struct {
	XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CreateBucketConfiguration"`
	Location string   `xml:"LocationConstraint,omitempty"`
	Tags     *tagSet  `xml:"Tags,omitempty"`
}

func encode(body any) []byte {
	text, _ := xml.Marshal(body) // it does not fail for structs of strings
	return text
}

// Create creates the bucket with the tag in one request, or without it for a server that rejects
// tags there. A server may also ignore them, or report success for a bucket that exists, so the
// caller must read the tags afterwards. The error is an Error.
func (c *Client) Create(ctx context.Context, key, value string) error {
	body := createBody{Tags: &tagSet{[]bucketTag{{key, value}}}}
	if c.target.Region != defaultRegion {
		body.Location = c.target.Region
	}
	a := c.send(ctx, http.MethodPut, "", encode(body))
	switch a.code {
	case "MalformedXML", "NotImplemented", "InvalidArgument": // the last one of Ceph
		var payload []byte
		if body.Tags = nil; body.Location != "" {
			payload = encode(body)
		}
		a = c.send(ctx, http.MethodPut, "", payload)
	}
	return a.err()
}

// Remove removes an empty bucket. Some servers would remove objects too, and SeaweedFS old versions, so
// Remove lists both before. A server that refuses to list versions has none, or protects them itself. A
// missing bucket is a success. The error is an Error.
func (c *Client) Remove(ctx context.Context) error {
	keys, a := c.list(ctx, listOneKey)
	if keys > 0 {
		return Error{hasObjects}
	}
	if a.verdict.OK() {
		if keys, a = c.list(ctx, listOneVersion); keys > 0 {
			return Error{hasMore}
		}
		if a.verdict.OK() || a.status/100 == 4 || a.status == http.StatusNotImplemented {
			a = c.send(ctx, http.MethodDelete, "", nil)
		}
	}
	if a.verdict.Missing() {
		return nil
	}
	return a.err()
}

// Tags returns the tags of the bucket, which are text of other users. The error is an Error.
func (c *Client) Tags(ctx context.Context) (map[string]string, error) {
	a := c.send(ctx, http.MethodGet, tagging, nil)
	var read taggingBody
	switch {
	case a.code == "NoSuchTagSet", a.code == "NoSuchTagSetError": // the latter of older versions of Ceph
		return nil, nil
	case a.status == http.StatusNotImplemented, a.status == http.StatusMethodNotAllowed, a.code == "NotImplemented":
		a.verdict = noTags
	case a.verdict.OK() && xml.Unmarshal(a.body, &read) != nil:
		a.verdict = notS3
	}
	tags := map[string]string{}
	for _, t := range read.TagSet.Tags {
		tags[t.Key] = t.Value
	}
	return tags, a.err()
}

// SetTag replaces all tags of the bucket by this tag. The error is an Error.
func (c *Client) SetTag(ctx context.Context, key, value string) error {
	body := taggingBody{TagSet: tagSet{[]bucketTag{{key, value}}}}
	return c.send(ctx, http.MethodPut, tagging, encode(body)).err()
}

// send sends one request about the bucket. It uses minio-go for signatures, but not its client,
// which takes any 404 for a missing bucket, sends requests to other hosts if the endpoint is Amazon's,
// and lists page after page.
func (c *Client) send(ctx context.Context, method, query string, payload []byte) answer {
	ctx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	location := c.location
	location.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, method, location.String(), bytes.NewReader(payload))
	if err != nil {
		return answer{verdict: verdictOnError(err)}
	}
	request.Host = c.host
	sum := sha256.Sum256(payload)
	request.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	if len(payload) > 0 {
		short := md5.Sum(payload) //nolint:gosec // as above
		request.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(short[:]))
	}
	response, err := c.http.Do(signer.SignV4(*request, c.credentials.AccessKeyID, c.credentials.SecretAccessKey,
		c.credentials.SessionToken, c.target.Region))
	if err != nil {
		return answer{verdict: verdictOnError(err)}
	}
	defer func() { _ = response.Body.Close() }() // the response has been read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return answer{verdict: verdictOnError(err)}
	}
	a := answer{status: response.StatusCode, region: response.Header.Get("X-Amz-Bucket-Region"), body: body}
	if a.status == http.StatusOK || a.status == http.StatusNoContent && method != http.MethodHead {
		a.verdict = Succeeded
		return a
	}
	var read struct {
		XMLName                xml.Name `xml:"Error"`
		Code, Region, Endpoint string
	}
	if xml.Unmarshal(body, &read) == nil {
		a.code, a.region, a.namesEndpoint = read.Code, cmp.Or(a.region, read.Region), read.Endpoint != ""
	}
	switch a.verdict = verdictOn(a, c.target.Region); {
	case a.verdict == Denied && query == tagging:
		a.verdict = deniedTags
	case a.verdict == Denied && method == http.MethodPut:
		a.verdict = deniedCreation
	case a.verdict == Denied && method == http.MethodDelete:
		a.verdict = deniedRemoval
	}
	return a
}
