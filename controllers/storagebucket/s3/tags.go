package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"slices"
)

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

// Tag returns the value of a tag of the bucket; empty if the bucket does not have the tag. tagged
// reports whether the bucket has any tags. The error is an *Error. Its reason is TagsNotSupported
// for a service without tags of buckets.
func (c *Client) Tag(ctx context.Context, key string) (value string, tagged bool, err error) {
	body, _, err := c.send(ctx, http.MethodGet, tagging, nil)
	if a, ok := errors.AsType[*answer](err); ok {
		switch {
		case a.code == codeNoTags:
			return "", false, nil
		case a.status == http.StatusNotImplemented, a.status == http.StatusMethodNotAllowed, a.code == codeNotImplemented:
			return "", false, &Error{Verdict: noTags, Code: a.code}
		}
	}
	if err != nil {
		return "", false, c.failed(err)
	}
	var read taggingBody
	if xml.Unmarshal(body, &read) != nil {
		return "", false, c.failed(errNoS3)
	}
	set := read.TagSet.Tags
	if i := slices.IndexFunc(set, func(t bucketTag) bool { return t.Key == key }); i >= 0 {
		value = set[i].Value
	}
	return value, len(set) > 0, nil
}

// SetTag replaces all tags of the bucket by this tag. The error is an *Error.
func (c *Client) SetTag(ctx context.Context, key, value string) error {
	return c.put(ctx, tagging, taggingBody{TagSet: tagSet{Tags: []bucketTag{{key, value}}}})
}
