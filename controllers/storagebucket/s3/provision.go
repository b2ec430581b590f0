package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/tags"

	"leasehold.dev/api/v1beta1"
)

// Error is a request that failed, with the verdict on it.
type Error struct {
	Verdict Verdict
	// Code is S3's error code; empty when no answer arrived.
	Code string
}

func (e *Error) Error() string { return e.Verdict.Reason + ": " + e.Verdict.Message }

// Codes of answers that are no failure, but news.
const (
	// CodeExists: the bucket exists and belongs to another account.
	CodeExists = "BucketAlreadyExists"
	// CodeOwned: the bucket exists and belongs to this account.
	CodeOwned = "BucketAlreadyOwnedByYou"

	// CodeChanged: a tag has another value than the one that was to be replaced.
	CodeChanged = "TagChanged"

	codeNotEmpty     = "BucketNotEmpty"
	codeNoTags       = "NoSuchTagSet"
	codeMalformed    = "MalformedXML"
	codeNotSupported = "NotImplemented"
)

// try runs a request and returns its failure as an *Error.
func (c *Client) try(ctx context.Context, request func(context.Context) error) error {
	var failure error
	v := c.judge(ctx, func(ctx context.Context) error {
		failure = request(ctx)
		return failure
	})
	if failure == nil {
		return nil
	}
	answer, _ := errors.AsType[minio.ErrorResponse](failure) // zero where no answer arrived
	return &Error{Verdict: v, Code: answer.Code}
}

// Code is the S3 error code of an error of this package; empty if it has none.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// VerdictOf is the verdict on an error of this package; nil if it has none.
func VerdictOf(err error) *Verdict {
	if e, ok := errors.AsType[*Error](err); ok {
		return &e.Verdict
	}
	return nil
}

// Tag returns the value of a tag of the bucket; empty if it does not have it.
// tagged tells whether the bucket has any tags. The error is an *Error.
func (c *Client) Tag(ctx context.Context, key string) (value string, tagged bool, err error) {
	set, err := c.tags(ctx)
	if Code(err) == codeNoTags {
		return "", false, nil
	}
	return set[key], len(set) > 0, err
}

// tags returns all tags of the bucket. The error is an *Error.
func (c *Client) tags(ctx context.Context) (found map[string]string, err error) {
	err = c.try(ctx, func(ctx context.Context) error {
		body, err := c.send(ctx, http.MethodGet, tagging, nil)
		if err != nil {
			return err
		}
		set, err := tags.ParseBucketXML(bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("reading the tags: %w", err)
		}
		found = set.ToMap()
		return nil
	})
	return found, err
}

// SetTag makes the tag the bucket's only one. The error is an *Error.
func (c *Client) SetTag(ctx context.Context, key, value string) error {
	return c.setTags(ctx, map[string]string{key: value})
}

// ReplaceTag gives a tag of the bucket another value and leaves its other tags as they are. It fails
// with CodeChanged if the tag has not the value that it is to replace. The error is an *Error.
func (c *Client) ReplaceTag(ctx context.Context, key, from, to string) error {
	set, err := c.tags(ctx)
	if err != nil {
		return err
	}
	if set[key] != from {
		return &Error{Code: CodeChanged, Verdict: Verdict{Reason: v1beta1.ReasonBucketConflict, Message: "the tags of the bucket have just changed"}}
	}
	set[key] = to
	return c.setTags(ctx, set)
}

func (c *Client) setTags(ctx context.Context, all map[string]string) error {
	set, err := tags.NewTags(all, false)
	if err != nil {
		return fmt.Errorf("making the tags: %w", err)
	}
	payload, err := xml.Marshal(set)
	if err != nil {
		return fmt.Errorf("writing the tags: %w", err)
	}
	return c.try(ctx, func(ctx context.Context) error {
		_, err := c.send(ctx, http.MethodPut, tagging, payload)
		return err
	})
}

// Create makes the bucket and asks for a tag on it in the same request, so that
// there is no moment at which it exists without. A server that does not know
// such a request leaves the tag out, which the caller has to look for. A bucket
// that exists already is an *Error with CodeOwned or CodeExists, but for
// services that call it a success.
func (c *Client) Create(ctx context.Context, key, value string) error {
	body := creation{}
	if c.target.Region != defaultRegion {
		body.Location = c.target.Region
	}
	marked := body
	marked.Tags = &creationTags{Tag: []creationTag{{key, value}}}
	err := c.create(ctx, marked)
	if code := Code(err); code != codeMalformed && code != codeNotSupported {
		return err
	}
	return c.create(ctx, body)
}

func (c *Client) create(ctx context.Context, body creation) error {
	var payload []byte
	if body != (creation{}) {
		var err error
		if payload, err = xml.Marshal(body); err != nil {
			return fmt.Errorf("writing the request: %w", err)
		}
	}
	return c.try(ctx, func(ctx context.Context) error {
		_, err := c.send(ctx, http.MethodPut, "", payload)
		return err
	})
}

// creation is the body of CreateBucket.
type creation struct {
	XMLName  xml.Name      `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CreateBucketConfiguration"`
	Location string        `xml:"LocationConstraint,omitempty"`
	Tags     *creationTags `xml:"Tags,omitempty"`
}

type creationTags struct{ Tag []creationTag }

type creationTag struct{ Key, Value string }

// defaultRegion is the one that S3 wants left out of CreateBucket.
const defaultRegion = "us-east-1"

// Remove removes the bucket, which must be empty: one with objects stays as
// it is, and the *Error says so. Some servers would empty it without a word, so
// it is looked into first. A bucket that is gone is a success.
func (c *Client) Remove(ctx context.Context) error {
	err := c.try(ctx, func(ctx context.Context) error {
		body, err := c.send(ctx, http.MethodGet, listOne, nil)
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
