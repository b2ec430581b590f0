// SPDX-License-Identifier: Apache-2.0

package external

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/s3server"
)

// maxBody is the number of stored bytes of a body: no request about a bucket has more.
const maxBody = 64 << 10

// S3 starts an S3 server whose external objects are buckets. The tag of a bucket has the UID of its
// object. It is required if the operator creates buckets.
func S3(ownerTag string) run.StartExternal {
	return func(ctx context.Context, c clock.Clock, peer func(client, server string) string) (run.External, error) {
		server, err := s3server.Start(ctx, s3server.Options{})
		if err != nil {
			return nil, err
		}
		proxy, err := fault.NewProxy(fault.Options{Upstream: server.Endpoint(), Clock: c, Bodies: maxBody, Peer: peer})
		if err != nil {
			return nil, errors.Join(err, server.Stop())
		}
		return &s3{server: server, proxy: proxy, tag: ownerTag}, nil
	}
}

type s3 struct {
	server *s3server.Server
	proxy  *fault.Proxy
	tag    string
}

func (s *s3) Proxy() *fault.Proxy { return s.proxy }

func (s *s3) Values() (open, secret map[string]string) {
	account := s.server.Account()
	_, address, _ := strings.Cut(s.proxy.URL(), "://")
	return map[string]string{"s3.endpoint": s.proxy.URL(), "s3.address": address, "s3.region": s3server.Region},
		map[string]string{"s3.accessKey": account.AccessKey, "s3.secretKey": account.SecretKey}
}

// object is the object with which a bucket is filled.
const object = "of-another-client"

// Do changes a bucket. It succeeds if the bucket is already as requested, so it can be retried.
func (s *s3) Do(ctx context.Context, change, bucket string) error {
	var err error
	client := s.server.Client()
	switch change {
	case "put":
		err = client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{})
		if minio.ToErrorResponse(err).Code == "BucketAlreadyOwnedByYou" {
			err = nil
		}
	case "remove":
		if err = client.RemoveBucket(ctx, bucket); absent(err) {
			err = nil
		}
	case "fill":
		_, err = client.PutObject(ctx, bucket, object, strings.NewReader(object), int64(len(object)),
			minio.PutObjectOptions{})
	case "empty":
		err = client.RemoveObject(ctx, bucket, object, minio.RemoveObjectOptions{})
	default:
		return fmt.Errorf("changing what is outside: no change of an S3 server is called %q; there are put, remove, fill and empty", change)
	}
	if err != nil {
		return fmt.Errorf("changing what is outside: %s of bucket %s: %w", change, bucket, err)
	}
	return nil
}

func absent(err error) bool { return minio.ToErrorResponse(err).Code == minio.NoSuchBucket }

// Look reads the names of the buckets from the server's disk and requests their tags. It leaves
// out a bucket that disappears meanwhile.
func (s *s3) Look(ctx context.Context) ([]history.ExternalThing, error) {
	names, err := s.server.Buckets()
	if err != nil {
		return nil, err
	}
	var all []history.ExternalThing
	for _, name := range names {
		thing := history.ExternalThing{Name: name}
		set, err := s.server.Client().GetBucketTagging(ctx, name)
		switch {
		case err == nil:
			thing.Owner = types.UID(set.ToMap()[s.tag])
		case absent(err):
			continue
		case minio.ToErrorResponse(err).Code != "NoSuchTagSet":
			return nil, fmt.Errorf("asking for the tags of bucket %s: %w", name, err)
		}
		all = append(all, thing)
	}
	return all, nil
}

// Read recognises buckets in the path of the request.
func (s *s3) Read(r fault.ProxiedRequest) (history.Call, bool) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	if bucket == "" {
		return history.Call{}, false
	}
	call := history.Call{Action: history.Get, Thing: bucket, Outcome: outcomeOf(r)}
	switch {
	case !r.Mutating():
	case key != "" || len(r.Query) > 0:
		call.Action = history.Change
	case r.Method == http.MethodPut:
		call.Action, call.Owner = history.Create, s.marked(r.Body)
	case r.Method == http.MethodDelete:
		call.Action = history.Delete
	default:
		call.Action = history.Change
	}
	return call, true
}

// outcomeOf returns the outcome of an answered request.
func outcomeOf(r fault.ProxiedRequest) history.CallOutcome {
	switch {
	case r.Committed():
		return history.Done
	case r.Status >= http.StatusInternalServerError:
		return history.Lost // it may have been done
	case r.Status == http.StatusNotFound && cmp.Or(codeOf(r.Problem), minio.NoSuchBucket) == minio.NoSuchBucket:
		return history.Absent // the answer to a HEAD has no code
	case r.Status == http.StatusNotFound && !r.Mutating():
		return history.Done // the bucket exists, but not the requested part of it
	}
	return history.Failed
}

func codeOf(problem []byte) string {
	var response minio.ErrorResponse
	if xml.Unmarshal(problem, &response) != nil {
		return ""
	}
	return response.Code
}

// marked returns the owner in a request to create a bucket; "" without one.
func (s *s3) marked(body []byte) types.UID {
	var asked struct {
		Tags []struct{ Key, Value string } `xml:"Tags>Tag"`
	}
	if xml.Unmarshal(body, &asked) != nil {
		return ""
	}
	for _, tag := range asked.Tags {
		if tag.Key == s.tag {
			return types.UID(tag.Value)
		}
	}
	return ""
}

// refusals are S3's words for codes.
var refusals = map[int]string{
	http.StatusForbidden:           "AccessDenied",
	http.StatusInternalServerError: "InternalError",
	http.StatusServiceUnavailable:  "SlowDown",
}

func (s *s3) Refusal(code int) (fault.Answer, error) {
	word, known := refusals[code]
	if !known {
		return fault.Answer{}, fmt.Errorf("refusing as an S3 server does: no refusal has the code %d", code)
	}
	return fault.S3Error(code, word), nil
}

func (s *s3) Stop() error { return errors.Join(s.proxy.Close(), s.server.Stop()) }
