// SPDX-License-Identifier: Apache-2.0

package external

import (
	"context"
	"net/http"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/tags"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
)

const mark = "example.com/owner"

func TestS3Read_ReturnsTheOutcome(t *testing.T) {
	s := &s3{tag: mark}
	const (
		creation = `<CreateBucketConfiguration><Tags><Tag><Key>a</Key><Value>b</Value></Tag><Tag><Key>` + mark +
			`</Key><Value>uid-1</Value></Tag></Tags></CreateBucketConfiguration>`
		noBucket = `<Error><Code>NoSuchBucket</Code></Error>`
		noTags   = `<Error><Code>NoSuchTagSet</Code></Error>`
	)
	call := func(a history.Action, o history.CallOutcome) history.Call {
		return history.Call{Action: a, Thing: "b", Outcome: o}
	}
	marked := call(history.Create, history.Done)
	marked.Owner = "uid-1"
	tagging := map[string][]string{"tagging": {""}}
	for name, tc := range map[string]struct {
		asked fault.ProxiedRequest
		want  history.Call
	}{
		"Made":            {fault.ProxiedRequest{Method: "PUT", Path: "/b", Status: 200, Body: []byte(creation)}, marked},
		"MadeWithoutMark": {fault.ProxiedRequest{Method: "PUT", Path: "/b/", Status: 200}, call(history.Create, history.Done)},
		"MadeWithNonsense": {fault.ProxiedRequest{Method: "PUT", Path: "/b", Status: 200, Body: []byte("x")},
			call(history.Create, history.Done)},
		"NotMade":     {fault.ProxiedRequest{Method: "PUT", Path: "/b", Status: 409}, call(history.Create, history.Failed)},
		"PerhapsMade": {fault.ProxiedRequest{Method: "PUT", Path: "/b", Status: 500}, call(history.Create, history.Lost)},
		"Tagged": {fault.ProxiedRequest{Method: "PUT", Path: "/b", Query: tagging, Status: 200},
			call(history.Change, history.Done)},
		"Filled":  {fault.ProxiedRequest{Method: "PUT", Path: "/b/key", Status: 200}, call(history.Change, history.Done)},
		"Posted":  {fault.ProxiedRequest{Method: "POST", Path: "/b", Status: 200}, call(history.Change, history.Done)},
		"Removed": {fault.ProxiedRequest{Method: "DELETE", Path: "/b", Status: 204}, call(history.Delete, history.Done)},
		"RemovedBefore": {fault.ProxiedRequest{Method: "DELETE", Path: "/b", Status: 404, Problem: []byte(noBucket)},
			call(history.Delete, history.Absent)},
		"NotEmpty": {fault.ProxiedRequest{Method: "DELETE", Path: "/b", Status: 409},
			call(history.Delete, history.Failed)},
		"Seen":      {fault.ProxiedRequest{Method: "HEAD", Path: "/b", Status: 200}, call(history.Get, history.Done)},
		"NotSeen":   {fault.ProxiedRequest{Method: "HEAD", Path: "/b", Status: 404}, call(history.Get, history.Absent)},
		"Forbidden": {fault.ProxiedRequest{Method: "HEAD", Path: "/b", Status: 403}, call(history.Get, history.Failed)},
		"WithoutTags": {fault.ProxiedRequest{Method: "GET", Path: "/b", Query: tagging, Status: 404, Problem: []byte(noTags)},
			call(history.Get, history.Done)},
		"WithoutBucket": {fault.ProxiedRequest{Method: "GET", Path: "/b", Query: tagging, Status: 404,
			Problem: []byte(noBucket)}, call(history.Get, history.Absent)},
		"NothingToUntagThat": {fault.ProxiedRequest{Method: "DELETE", Path: "/b", Query: tagging, Status: 404,
			Problem: []byte(noTags)}, call(history.Change, history.Failed)},
	} {
		t.Run(name, func(t *testing.T) {
			got, about := s.Read(tc.asked)
			NewWithT(t).Expect(about).To(BeTrue())
			NewWithT(t).Expect(got).To(Equal(tc.want))
		})
	}
	_, about := s.Read(fault.ProxiedRequest{Method: "GET", Path: "/"})
	NewWithT(t).Expect(about).To(BeFalse(), "it is about no bucket")
}

func TestS3Refusal_IsAnS3Error(t *testing.T) {
	g := NewWithT(t)
	answer, err := (&s3{}).Refusal(http.StatusServiceUnavailable)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Status).To(Equal(http.StatusServiceUnavailable))
	g.Expect(answer.Body).To(ContainSubstring("<Code>SlowDown</Code>"))
	_, err = (&s3{}).Refusal(http.StatusTeapot)
	g.Expect(err).To(MatchError(ContainSubstring("418")))
}

// The operator's requests go through the proxy; another client's requests bypass it.
func TestS3_StateFollowsChanges(t *testing.T) {
	g := NewWithT(t)
	started, err := S3(mark)(context.WithoutCancel(t.Context()), clock.RealClock{},
		func(string, string) string { return "one" })
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(started.Stop()).To(Succeed()) })

	open, secret := started.Values()
	g.Expect(open["s3.endpoint"]).To(Equal("http://" + open["s3.address"]))
	client, err := minio.New(open["s3.address"], &minio.Options{
		Creds: credentials.NewStaticV4(secret["s3.accessKey"], secret["s3.secretKey"], ""), Region: open["s3.region"],
		BucketLookup: minio.BucketLookupPath, MaxRetries: 1, Transport: &http.Transport{DisableKeepAlives: true},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.MakeBucket(t.Context(), "mine", minio.MakeBucketOptions{})).To(Succeed())
	set, err := tags.NewTags(map[string]string{mark: "uid-1"}, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.SetBucketTagging(t.Context(), "mine", set)).To(Succeed())
	for range 2 { // the second time it is there
		g.Expect(started.Do(t.Context(), "put", "others")).To(Succeed())
	}
	g.Expect(started.Look(t.Context())).
		To(ConsistOf(history.ExternalThing{Name: "mine", Owner: "uid-1"}, history.ExternalThing{Name: "others"}))

	t.Log("what is not empty stays")
	g.Expect(started.Do(t.Context(), "fill", "mine")).To(Succeed())
	g.Expect(started.Do(t.Context(), "remove", "mine")).To(MatchError(ContainSubstring("remove of bucket mine")))
	g.Expect(started.Do(t.Context(), "empty", "mine")).To(Succeed())
	for range 2 {
		g.Expect(started.Do(t.Context(), "remove", "mine")).To(Succeed())
	}
	g.Expect(started.Look(t.Context())).To(ConsistOf(history.ExternalThing{Name: "others"}))
	g.Expect(started.Do(t.Context(), "paint", "others")).To(MatchError(ContainSubstring(`called "paint"`)))

	journal := started.Proxy().Journal()
	g.Expect(journal.Requests).To(HaveLen(2), "requests of another client are not the operator's")
	g.Expect(journal.Requests[0].Peer).To(Equal("one"))
	call, _ := started.Read(journal.Requests[0])
	g.Expect(call).To(Equal(history.Call{Action: history.Create, Thing: "mine", Outcome: history.Done}))
}
