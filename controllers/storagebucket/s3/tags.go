package s3

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"

	"leasehold.dev/api/v1beta1"
)

// maxTags bounds the bytes that are read of a bucket's tags. S3 permits 50 tags of 128 and 256
// characters, and XML takes up to 9 bytes for a character.
const maxTags = 256 << 10

// bucketTag is a tag of a bucket. S3 permits all letters of Unicode, and other services more.
// minio-go's parser refuses what is not ASCII, so one tag of another user would hide all of them.
type bucketTag struct{ Key, Value string }

type tagSet struct {
	Tags []bucketTag `xml:"Tag"`
}

// taggingBody is the body of PutBucketTagging and of the response to GetBucketTagging.
type taggingBody struct {
	XMLName xml.Name `xml:"Tagging"`
	TagSet  tagSet
}

func (s tagSet) index(key string) int {
	return slices.IndexFunc(s.Tags, func(t bucketTag) bool { return t.Key == key })
}

// value returns the value of a tag; empty without the tag.
func (s tagSet) value(key string) string {
	if i := s.index(key); i >= 0 {
		return s.Tags[i].Value
	}
	return ""
}

// Tag returns the value of a tag of the bucket; empty if the bucket does not have the tag. tagged
// reports whether the bucket has any tags. The error is an *Error.
func (c *Client) Tag(ctx context.Context, key string) (value string, tagged bool, err error) {
	set, err := c.tags(ctx)
	if Code(err) == codeNoTags {
		return "", false, nil
	}
	return set.value(key), len(set.Tags) > 0, err
}

// tags returns all tags of the bucket. The error is an *Error.
func (c *Client) tags(ctx context.Context) (found tagSet, err error) {
	err = c.try(ctx, func(ctx context.Context) error {
		body, err := c.send(ctx, http.MethodGet, tagging, nil)
		if err != nil {
			return err
		}
		var read taggingBody
		if err := xml.Unmarshal(body, &read); err != nil {
			return fmt.Errorf("reading the tags: %w", err)
		}
		found = read.TagSet
		return nil
	})
	return found, err
}

// SetTag replaces all tags of the bucket by this tag. The error is an *Error.
func (c *Client) SetTag(ctx context.Context, key, value string) error {
	return c.setTags(ctx, tagSet{Tags: []bucketTag{{key, value}}})
}

// ReplaceTag replaces the value of a tag and keeps the other tags. It returns CodeChanged if the
// tag does not have the value `from`. The error is an *Error.
func (c *Client) ReplaceTag(ctx context.Context, key, from, to string) error {
	set, err := c.tags(ctx)
	if err != nil {
		return err
	}
	i := set.index(key)
	if i < 0 || set.Tags[i].Value != from {
		return &Error{Code: CodeChanged,
			Verdict: Verdict{Reason: v1beta1.ReasonBucketConflict, Message: "the tags of the bucket have just changed"}}
	}
	set.Tags[i].Value = to
	return c.setTags(ctx, set)
}

func (c *Client) setTags(ctx context.Context, all tagSet) error {
	payload, err := xml.Marshal(taggingBody{TagSet: all})
	if err != nil {
		return fmt.Errorf("encoding the tags: %w", err)
	}
	return c.try(ctx, func(ctx context.Context) error {
		_, err := c.send(ctx, http.MethodPut, tagging, payload)
		return err
	})
}
