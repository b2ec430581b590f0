package storagebucket

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"leasehold.dev/api/v1beta1"
)

// A reconcile that is canceled because the operator stops reports nothing about the bucket,
// whatever request it has reached.
func TestCanceledReconcileReportsNothing(t *testing.T) {
	anothers := withFailures(absent, requestCreate, "409 BucketAlreadyExists")
	for name, tc := range map[string]struct {
		at      string
		service fakeService
		want    v1beta1.BucketProvisioning
	}{
		"the HEAD request":                  {requestHead, absent, ""},
		"the GET request for the code":      {requestList, absent, ""},
		"the creation":                      {requestCreate, absent, v1beta1.BucketIntended},
		"the tags":                          {requestTags, absent, v1beta1.BucketIntended},
		"the tags of another account's":     {requestTags, anothers, v1beta1.BucketIntended},
		"setting the tag after a creation":  {requestSetTag, fakeService{tags: "ignores"}, v1beta1.BucketIntended},
		"the tags of a bucket that existed": {requestTags, owned, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w := newFixture(t, scenario{with: manage, service: tc.service})
			w.onRequest = func(r *http.Request) {
				if nameOf(r) == tc.at {
					stop()
					_, _ = io.Copy(io.Discard, r.Body) // after that net/http detects that the client has disconnected
					<-r.Context().Done()
				}
			}
			if _, err := w.Reconcile(ctx, bReq); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that the context was canceled", err)
			}
			b, reason := w.read(), ""
			if tc.want != "" {
				reason = v1beta1.ReasonCreating
			}
			if b.Status.Provisioning != tc.want || readyOf(b).Reason != reason || len(w.recorder.Events) > 0 {
				t.Errorf("%+v and %d events, want provisioning %q and no report", b.Status, len(w.recorder.Events), tc.want)
			}
		})
	}
}

// No bucket is created for a StorageBucket that was deleted or changed since it was read, whether
// or not the intent is recorded.
func TestNoBucketIsCreatedForChangedStorageBucket(t *testing.T) {
	for name, change := range map[string]change{
		"gone": func(w *fixture) {
			w.edit(func(b *v1beta1.StorageBucket) { b.Finalizers = nil })
			w.delete()
		},
		"being deleted": (*fixture).delete,
		"another spec": func(w *fixture) {
			w.edit(func(b *v1beta1.StorageBucket) { b.Generation, b.Spec.ManagementPolicy = 2, v1beta1.BucketObserve })
		},
	} {
		for _, provisioning := range []v1beta1.BucketProvisioning{"", v1beta1.BucketIntended, v1beta1.BucketCreated} {
			t.Run(name+" "+string(provisioning), func(t *testing.T) {
				w := newFixture(t, scenario{with: func(b *v1beta1.StorageBucket) {
					manage(b)
					b.Status.Provisioning = provisioning
				}})
				w.onRequest = func(r *http.Request) {
					if nameOf(r) == requestList {
						change(w)
					}
				}
				_, err := w.Reconcile(t.Context(), bReq)
				if slices.Contains(w.requests, requestCreate) || len(w.recorder.Events) > 0 {
					t.Errorf("requests %q (%v), %d events, want no creation", w.requests, err, len(w.recorder.Events))
				}
			})
		}
	}
}
