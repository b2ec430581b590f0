package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// Error is the error of a request, with its verdict.
type Error struct {
	Verdict Verdict
	// Code is S3's error code; empty if there was no response.
	Code string
}

func (e *Error) Error() string { return e.Verdict.Reason + ": " + e.Verdict.Message }

// Codes of responses that are no failures but results.
const (
	// CodeExists means that the bucket exists and belongs to another account.
	CodeExists = "BucketAlreadyExists"
	// CodeOwned means that the bucket exists and belongs to this account.
	CodeOwned = "BucketAlreadyOwnedByYou"

	// CodeChanged means that the tag no longer has the value that was to be replaced.
	CodeChanged = "TagChanged"

	codeNotEmpty     = "BucketNotEmpty"
	codeNoTags       = "NoSuchTagSet"
	codeMalformed    = "MalformedXML"
	codeNotSupported = "NotImplemented"
)

// try executes a request and returns its error as an *Error.
func (c *Client) try(ctx context.Context, request func(context.Context) error) error {
	var failure error
	v := c.judge(ctx, func(ctx context.Context) error {
		failure = request(ctx)
		return failure
	})
	if failure == nil {
		return nil
	}
	answer, _ := errors.AsType[minio.ErrorResponse](failure) // zero if there was no response
	return &Error{Verdict: v, Code: answer.Code}
}

// Code returns the S3 error code of an error of this package; empty if it has none.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// VerdictOf returns the verdict of an error of this package; nil if it has none.
func VerdictOf(err error) *Verdict {
	if e, ok := errors.AsType[*Error](err); ok {
		return &e.Verdict
	}
	return nil
}

// Create creates the bucket with a tag in one request, so the bucket never exists without the tag.
// A server without this feature ignores the tag, which the caller must check. For an existing
// bucket the error is an *Error with CodeOwned or CodeExists; some services return a success.
func (c *Client) Create(ctx context.Context, key, value string) error {
	body := createBucketBody{}
	if c.target.Region != defaultRegion {
		body.Location = c.target.Region
	}
	tagged := body
	tagged.Tags = &tagSet{Tags: []bucketTag{{key, value}}}
	err := c.create(ctx, tagged)
	if code := Code(err); code != codeMalformed && code != codeNotSupported {
		return err
	}
	return c.create(ctx, body)
}

func (c *Client) create(ctx context.Context, body createBucketBody) error {
	var payload []byte
	if body != (createBucketBody{}) {
		var err error
		if payload, err = xml.Marshal(body); err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
	}
	return c.try(ctx, func(ctx context.Context) error {
		_, err := c.send(ctx, http.MethodPut, "", payload)
		return err
	})
}

// createBucketBody is the body of CreateBucket.
type createBucketBody struct {
	XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CreateBucketConfiguration"`
	Location string   `xml:"LocationConstraint,omitempty"`
	Tags     *tagSet  `xml:"Tags,omitempty"`
}

// defaultRegion is the region that S3 does not accept in the body of CreateBucket.
const defaultRegion = "us-east-1"

// Remove removes an empty bucket. For a bucket with objects it returns an *Error. Some servers
// would remove the objects too, so Remove lists the bucket before. A missing bucket is a success.
func (c *Client) Remove(ctx context.Context) error {
	err := c.try(ctx, func(ctx context.Context) error {
		body, err := c.send(ctx, http.MethodGet, listOneKey, nil)
		if err != nil {
			return err
		}
		var listed struct {
			XMLName  xml.Name   `xml:"ListBucketResult"`
			Contents []struct{} `xml:"Contents"`
		}
		if err := xml.Unmarshal(body, &listed); err != nil {
			return fmt.Errorf("reading the list of objects: %w", err)
		}
		if len(listed.Contents) > 0 {
			return minio.ErrorResponse{StatusCode: http.StatusConflict, Code: codeNotEmpty}
		}
		_, err = c.send(ctx, http.MethodDelete, "", nil)
		return err
	})
	if Code(err) == minio.NoSuchBucket {
		return nil
	}
	return err
}
