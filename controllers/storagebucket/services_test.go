// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"leasehold.dev/api/v1beta1"
)

const missing404, exists409 = "404 NoSuchBucket", "409 BucketAlreadyOwnedByYou"

// implementation is in what services differ: their answers to the requests of the operator, as their sources
// or their documentation have them. An answer is a status and a code.
type implementation struct {
	tagsOfMissing, tagsOfUntagged string // to GET tagging
	// taggedCreation is the answer to a creation with tags: empty if the tags are set, "ignored" if not.
	taggedCreation string
	existing       string // to the creation of a bucket of the own account; empty is a success
	hasNoTags      bool   // tags of buckets are not implemented
	namesRegion    bool   // in a header of HEAD
	removesAll     bool   // DELETE removes a bucket with its contents
}

// implementations are of MinIO 7aac2a2c5 (2026-02), Ceph (main of 2025, and before it renamed a code),
// SeaweedFS cc8364a03 (2026-08) and Garage 3f4ab3a4 (2025-06), as their handlers have them, and of AWS, as
// its documentation has them.
var implementations = map[string]implementation{
	"AWS, us-east-1": {tagsOfMissing: missing404, tagsOfUntagged: "404 NoSuchTagSet", namesRegion: true},
	"AWS, elsewhere": {tagsOfMissing: missing404, tagsOfUntagged: "404 NoSuchTagSet", existing: exists409,
		namesRegion: true},
	"MinIO": {tagsOfMissing: "404 NoSuchTagSet", tagsOfUntagged: "404 NoSuchTagSet", existing: exists409,
		taggedCreation: "ignored"},
	"Ceph": {tagsOfMissing: missing404, tagsOfUntagged: "404 NoSuchTagSet", taggedCreation: "400 InvalidArgument"},
	"Ceph, older": {tagsOfMissing: missing404, tagsOfUntagged: "404 NoSuchTagSetError",
		taggedCreation: "400 InvalidArgument"},
	"Ceph, with a region": {tagsOfMissing: missing404, tagsOfUntagged: "404 NoSuchTagSet", taggedCreation: "ignored"},
	"SeaweedFS": {tagsOfMissing: missing404, tagsOfUntagged: "404 NoSuchTagSet", existing: exists409,
		taggedCreation: "ignored", removesAll: true},
	"Garage": {tagsOfMissing: missing404, hasNoTags: true, taggedCreation: "400 InvalidRequest"},
}

// contents are the states of a bucket: of the own account unless foreign.
type contents struct {
	exists, foreign, hasObject, hasVersion bool
	owner                                  string
}

// serviceOf serves one bucket as an implementation does.
type serviceOf struct {
	implementation
	contents
}

func (s *serviceOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	answer, found := s.answer(nameOf(r), strings.Contains(string(body), "<Value>uid-b</Value>"))
	if s.namesRegion && s.exists {
		w.Header().Set("X-Amz-Bucket-Region", "us-east-1")
	}
	status, code := http.StatusOK, ""
	if answer != "" {
		_, _ = fmt.Sscan(answer, &status, &code)
		found = "<Error><Code>" + code + "</Code></Error>"
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, found)
}

func (s *serviceOf) answer(request string, hasTag bool) (failure, body string) {
	list := func(root, entry string, has bool) string {
		return "<" + root + ">" + map[bool]string{true: "<" + entry + "/>"}[has] + "</" + root + ">"
	}
	switch {
	case request == requestCreate && s.exists:
		return map[bool]string{true: "409 BucketAlreadyExists", false: s.existing}[s.foreign], ""
	case request == requestCreate && hasTag && strings.Contains(s.taggedCreation, " "):
		return s.taggedCreation, ""
	case request == requestCreate:
		s.exists, s.owner = true, map[bool]string{true: "uid-b"}[hasTag && s.taggedCreation == ""]
	case !s.exists && request == requestTags:
		return s.tagsOfMissing, ""
	case !s.exists:
		return missing404, ""
	case s.foreign:
		return "403 AccessDenied", ""
	case s.hasNoTags && strings.HasSuffix(request, "tagging"):
		return "501 NotImplemented", ""
	case request == requestSetTag && hasTag:
		s.owner = "uid-b"
	case request == requestTags && s.owner == "":
		return s.tagsOfUntagged, ""
	case request == requestTags:
		return "", "<Tagging><TagSet><Tag><Key>" + v1beta1.BucketTagOwner + "</Key><Value>" + s.owner +
			"</Value></Tag></TagSet></Tagging>"
	case request == requestList:
		return "", list("ListBucketResult", "Contents", s.hasObject)
	case request == requestVersions:
		return "", list("ListVersionsResult", "Version", s.hasObject || s.hasVersion)
	case request == "DELETE" && !s.removesAll && (s.hasObject || s.hasVersion):
		return "409 BucketNotEmpty", ""
	case request == "DELETE":
		s.contents = contents{}
	}
	return "", ""
}

// With each implementation a missing bucket is created and marked, and a bucket of this StorageBucket is removed once
// it is empty. All others stay as they are, also one that appears after the probe.
func TestServices(t *testing.T) {
	const created, gone = v1beta1.ReasonProbeSucceeded, ""
	ours := contents{exists: true, owner: "uid-b"}
	for state, tc := range map[string]struct {
		before, after   contents
		late, removed   bool   // the bucket appears after the probe; the StorageBucket is being deleted
		want, untagging string // reasons, the second one of services without tags; gone without a StorageBucket
	}{
		"missing": {after: ours, want: created, untagging: v1beta1.ReasonServerError},
		"ours":    {before: ours, after: ours, want: created},
		"untagged": {before: contents{exists: true}, after: contents{exists: true}, want: v1beta1.ReasonBucketConflict,
			untagging: v1beta1.ReasonTagsNotSupported},
		"untagged, late": {before: contents{exists: true}, after: contents{exists: true}, late: true,
			want: v1beta1.ReasonBucketConflict, untagging: v1beta1.ReasonTagsNotSupported},
		"another's tag": {before: contents{exists: true, owner: "x"}, after: contents{exists: true, owner: "x"},
			want: v1beta1.ReasonBucketConflict},
		"ours, late": {before: ours, after: ours, late: true, want: created},
		"another account's": {before: contents{exists: true, foreign: true}, after: contents{exists: true, foreign: true},
			want: v1beta1.ReasonAccessDenied, untagging: v1beta1.ReasonAccessDenied},
		"another account's, late": {before: contents{exists: true, foreign: true},
			after: contents{exists: true, foreign: true}, late: true, want: v1beta1.ReasonBucketConflict,
			untagging: v1beta1.ReasonBucketConflict},

		"to remove": {before: ours, removed: true, want: gone},
		"to remove, with an object": {before: contents{exists: true, owner: "uid-b", hasObject: true},
			after:   contents{exists: true, owner: "uid-b", hasObject: true},
			removed: true, want: v1beta1.ReasonBucketNotEmpty},
		"to remove, with versions": {before: contents{exists: true, owner: "uid-b", hasVersion: true},
			after:   contents{exists: true, owner: "uid-b", hasVersion: true},
			removed: true, want: v1beta1.ReasonBucketNotEmpty},
		"to remove, untagged": {before: contents{exists: true}, after: contents{exists: true}, removed: true, want: gone,
			untagging: gone},
		"to remove, another's tag": {before: contents{exists: true, owner: "x"},
			after: contents{exists: true, owner: "x"}, removed: true, want: gone},
		"to remove, missing": {removed: true, want: gone, untagging: gone},
	} {
		for name, i := range implementations {
			if i.hasNoTags && (tc.before.owner != "" || state == "to remove") {
				continue // no such bucket can be
			}
			t.Run(name+", "+state, func(t *testing.T) {
				tc := tc
				s := &serviceOf{i, tc.before}
				if tc.late {
					s.contents = contents{}
				}
				w := newFixture(t, scenario{removed: tc.removed, with: func(b *v1beta1.StorageBucket) {
					removable(b)
					b.Spec.Probe.FailureThreshold = 1
				}})
				w.instead = s
				w.onRequest = func(r *http.Request) {
					if tc.late && nameOf(r) == requestTags {
						s.contents, tc.late = tc.before, false
					}
				}
				b, want := w.reconcile(), tc.want
				if i.hasNoTags {
					want, tc.after = tc.untagging, tc.before // it gets no bucket either
				}
				if got := readyOf(b); got.Reason != want || s.contents != tc.after || (b.Name == "") != (want == gone) {
					t.Errorf("%q Ready %s: %s; the bucket is %+v, want %s and %+v after %q", b.Name, got.Reason, got.Message,
						s.contents, want, tc.after, w.requests)
				}
			})
		}
	}
}
